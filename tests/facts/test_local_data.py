from __future__ import annotations

import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kerneltui.errors import UsageError
from kerneltui.facts.local_data import check_local_data


def _values(files: Any, path: str = "json") -> dict[str, Any]:
    return {"datasets": [{"path": path, "data_files": files}]}


@pytest.mark.parametrize(
    "content",
    [
        '{"a": 1}\n{"a": 2}\n',
        '{"a": 1}{"a": 2}',
        '{"a": {\n "b": 1}\n}\n{"a": {"b":\n2}}\n',
        '\ufeff{"a": 1}',
        '{"a": 1}',
        '[{"a": 1},\n {"a": 2}]',
        '{\n "a": 1\n}',
        '\n{"a": "xin chào 你好"}\n',
    ],
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
        "Line 2, column 1: Expecting value.\n"
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


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_packed_files_are_not_read_whatever_their_name(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    for name in ("data.jsonl.packed", "data.jsonl"):
        (tmp_path / name).write_bytes(pack(b'{"a": 1}\n'))
        check_local_data(_values(name), tmp_path)


@pytest.mark.parametrize("cut", [1 << 20, (1 << 20) - 1, (1 << 20) + 1, (1 << 20) + 7])
def test_objects_over_several_lines_and_characters_may_be_cut(tmp_path: Path, cut: int) -> None:
    row = json.dumps({"text": "漢字 x", "flag": True, "number": 1.5}, indent=2, ensure_ascii=False).encode() + b"\n"
    (tmp_path / "data.jsonl").write_bytes(b" " * (cut % len(row)) + row * (2 * cut // len(row)))
    check_local_data(_values("data.jsonl"), tmp_path)


def test_objects_over_several_lines_do_not_fit_a_large_file(tmp_path: Path) -> None:
    """`datasets` cuts files of more than 10 MB at the ends of lines."""
    row = json.dumps({"text": "x" * 1000}, indent=2) + "\n"
    (tmp_path / "data.jsonl").write_text(row * 11_000)
    with pytest.raises(UsageError, match="an object must not span lines"):
        check_local_data(_values("data.jsonl"), tmp_path)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b'{"a": 1},\n{"a": 2}', "Line 1, column 9: Expecting value."),
        (b'{"a": 1}\n[1, 2]\n', "Line 2, column 1: [1, 2] is no object."),
        (b"1\n2\n", "Line 1, column 1: 1 is no object."),
        (b'{"a": "\xff"}', "'utf-8' codec can't decode byte 0xff in position 7: invalid start byte"),
    ],
)
def test_what_datasets_does_not_read_is_told(tmp_path: Path, content: bytes, why: str) -> None:
    (tmp_path / "data.jsonl").write_bytes(content)
    with pytest.raises(UsageError) as raised:
        check_local_data(_values("data.jsonl"), tmp_path)
    assert raised.value.message == why


def test_a_home_directory_is_not_expanded_as_datasets_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "rows.jsonl").write_text('{"a": 1}\n')
    for values in (_values("~/rows.jsonl"), {"dataset_name": "~/"}):
        with pytest.raises(UsageError) as raised:
            check_local_data(values, tmp_path)
        assert raised.value.hint.startswith(f"~ has no meaning there; write {tmp_path}/home")
    with pytest.raises(UsageError, match="No data file at ~/nope"):
        check_local_data(_values("~/nope"), tmp_path)


@pytest.mark.parametrize(
    ("name", "builder"), [("./rows.jsonl", "json"), ("rows.csv", "csv"), ("rows.jsonl.gz", "json")]
)
def test_a_file_as_dataset_name_is_told_how_to_name_it(tmp_path: Path, name: str, builder: str) -> None:
    (tmp_path / name).write_text("")
    with pytest.raises(UsageError) as raised:
        check_local_data({"dataset_name": name}, tmp_path)
    assert raised.value.hint == f"Write instead: datasets: [{{path: {builder}, data_files: {name}}}]"
    check_local_data({"dataset_name": name, "datasets": [{"path": "a/b"}]}, tmp_path)
