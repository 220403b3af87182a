from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kerneltui.errors import UsageError
from kerneltui.facts.dataset import check_local_data


def _values(files: Any, path: str = "json") -> dict[str, Any]:
    return {"datasets": [{"path": path, "data_files": files}]}


@pytest.mark.parametrize(
    "content",
    ['{"a": 1}\n{"a": 2}\n', '{"a": 1}', '[{"a": 1},\n {"a": 2}]', '{\n "a": 1\n}', '\n{"a": "xin chào 你好"}\n'],
)
def test_json_in_its_usual_shapes_is_fine(tmp_path: Path, content: str) -> None:
    (tmp_path / "data.jsonl").write_text(content)
    check_local_data(_values("data.jsonl"), tmp_path)
    check_local_data(_values({"train": ["*.jsonl"]}), tmp_path)


def test_a_large_file_is_judged_by_its_head(tmp_path: Path) -> None:
    row = '{"text": "' + "x" * 1000 + '"}\n'
    (tmp_path / "data.jsonl").write_text(row * 3000 + "not json")
    check_local_data(_values("data.jsonl"), tmp_path)


def test_a_line_that_is_no_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "data.jsonl").write_text('{"a": 1}\nquestion,answer\n')
    with pytest.raises(UsageError) as raised:
        check_local_data(_values("data.jsonl"), tmp_path)
    assert str(raised.value) == (
        f"The data file {tmp_path}/data.jsonl is not JSON\n"
        "Line 2: Expecting value: line 1 column 1 (char 0).\n"
        "Each line must be one JSON object, or the whole file one list of objects."
    )


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as raised:
        check_local_data(_values("nope.jsonl"), tmp_path)
    assert str(raised.value) == (
        f"No data file at nope.jsonl\nNothing matches {tmp_path}/nope.jsonl.\nCheck data_files in the configuration."
    )


def test_a_path_that_would_be_taken_for_a_pattern_is_told(tmp_path: Path) -> None:
    (tmp_path / "run [1]").mkdir()
    (tmp_path / "run [1]" / "data.jsonl").write_text('{"a": 1}\n')
    with pytest.raises(UsageError, match="read as a pattern"):
        check_local_data(_values("run [1]/data.jsonl"), tmp_path)
    check_local_data(_values("run [[]1]/data.jsonl"), tmp_path)


@pytest.mark.parametrize(
    "values", [{}, {"datasets": []}, _values("https://x/y.json"), {"dataset_name": "trl-lib/tldr"}]
)
def test_what_is_not_local_is_left_alone(tmp_path: Path, values: dict[str, Any]) -> None:
    check_local_data(values, tmp_path)


def test_other_formats_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("a,b\n1,2\n")
    check_local_data(_values("data.csv", "csv"), tmp_path)
