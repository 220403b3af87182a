from __future__ import annotations

from pathlib import Path

import pytest

from kerneltui.errors import KerneltuiError, RecordError, UsageError
from kerneltui.paths import check_run_name, write_atomically
from kerneltui.plan.plan import Launch, Plan
from kerneltui.records import from_json, to_json

PLAN = Plan(trainer="sft", cwd="/w", config="a: 1\n", flags=("--b",), launch=Launch(name="n", gpus=(0, 1)))


def test_a_record_survives_the_way_to_disk_and_back() -> None:
    assert from_json(to_json(PLAN), Plan, "plan.json") == PLAN
    assert to_json(PLAN, indent=0).count(b"\n") == 1


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{", "plan.json is not JSON\nInput data was truncated\nWrite the file again, or name another."),
        (
            b'{"trainer": "sft", "cwd": "/", "flag": []}',
            "plan.json does not fit\nObject contains unknown field `flag`\nDid you mean flags?",
        ),
        (
            b'{"trainer": "sft", "cwd": "/", "launch": {"gpu": [1]}}',
            "plan.json does not fit\nObject contains unknown field `gpu` - at `$.launch`\nDid you mean gpus?",
        ),
        (
            b'{"trainer": 3, "cwd": "/"}',
            "plan.json does not fit\nExpected `str`, got `int` - at `$.trainer`\nCorrect that key.",
        ),
        (
            b'{"schema": 9, "trainer": "sft", "cwd": "/", "new": 1}',
            "plan.json was written by a newer kerneltui\n"
            "It has schema 9; this version reads up to 1.\nUpdate kerneltui.",
        ),
    ],
)  # fmt: skip
def test_a_record_that_does_not_fit_names_file_key_and_nearest_key(data: bytes, message: str) -> None:
    with pytest.raises(RecordError) as raised:
        from_json(data, Plan, "plan.json")
    assert str(raised.value) == message


@pytest.mark.parametrize("name", ["calm-otter", "v1.2_b", "über-lauf", "运行1"])
def test_names_of_runs(name: str) -> None:
    assert check_run_name(name) == name


@pytest.mark.parametrize("name", ["../x", "a/b", "..", ".hidden", "-x", "", "a b", "x" * 65, "a\nb", "a\x1b[31m"])
def test_names_that_could_leave_the_directory_or_need_quotes_are_refused(name: str) -> None:
    with pytest.raises(UsageError) as raised:
        check_run_name(name)
    assert str(raised.value).startswith(f"{name!r} cannot name a run\n")


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    write_atomically(path, b"old")
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o077 == 0
    with pytest.raises(KerneltuiError, match=r"Cannot write .*\nNo such file or directory"):
        write_atomically(tmp_path / "missing" / "x", b"")
    assert list(tmp_path.iterdir()) == [path]
