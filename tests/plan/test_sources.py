"""What a person types as data, in TRL's fields."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kerneltui.errors import UsageError
from kerneltui.plan.sources import data_values

NAMED: list[tuple[str, dict[str, Any]]] = [
    ("trl-lib/Capybara", {"dataset_name": "trl-lib/Capybara"}),
    ("folder", {"dataset_name": "folder"}),
    ("rows.jsonl", {"datasets": [{"path": "json", "data_files": "rows.jsonl"}]}),
    ("rows [1].csv", {"datasets": [{"path": "csv", "data_files": "rows [[]1].csv"}]}),
    ("*.parquet", {"datasets": [{"path": "parquet", "data_files": "*.parquet"}]}),
    ("rows.json.gz", {"datasets": [{"path": "json", "data_files": "rows.json.gz"}]}),
    ("https://x/rows.txt", {"datasets": [{"path": "text", "data_files": "https://x/rows.txt"}]}),
    ("./nowhere", {"dataset_name": "./nowhere"}),
]


@pytest.mark.parametrize(("text", "values"), NAMED)
def test_files_are_listed_and_the_rest_is_named(tmp_path: Path, text: str, values: dict[str, Any]) -> None:
    (tmp_path / "folder").mkdir()
    for name in ("rows.jsonl", "rows [1].csv"):
        (tmp_path / name).write_text("")
    found, remove = data_values(f" {text} ", tmp_path)
    assert found == values
    assert set(remove) | set(found) == {"dataset_name", "datasets"}


def test_the_home_folder_is_written_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "data").mkdir()
    assert data_values("~/data", Path("/"))[0] == {"dataset_name": f"{tmp_path}/data"}


@pytest.mark.parametrize("text", ["", "  ", "notes.docx"])
def test_what_cannot_be_data_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "notes.docx").write_text("")
    with pytest.raises(UsageError):
        data_values(text, tmp_path)
