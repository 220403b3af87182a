from __future__ import annotations

import json
from pathlib import Path

import pytest

from kerneltui.errors import UsageError
from kerneltui.runs.directory import LineReader, find_run, list_runs
from kerneltui.runs.follow import follow
from kerneltui.runs.supervisor import start_supervisor
from kerneltui.runs.view import last_lines, view_runs
from kerneltui.show import age, run_lines
from tests.runs.fakes import make_run


def test_half_a_line_waits_for_its_other_half(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    reader = LineReader(path)
    assert reader.read() == []
    path.write_bytes(b'{"step": 1}\n{"st')
    assert reader.read() == [{"step": 1}]
    with path.open("ab") as file:
        file.write('ep": 2, "name": "你好"}\n'.encode())
    assert reader.read() == [{"step": 2, "name": "你好"}]
    assert reader.read() == []


def test_lines_that_are_no_objects_are_counted_and_left_out(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step": 1}\nnonsense\n3\n\xff\xfe\n{"step": 2}\n')
    reader = LineReader(path, limit=7)
    assert reader.read() == [{"step": 1}, {"step": 2}]
    assert reader.skipped == 3


def test_the_end_of_a_file_is_read_without_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(json.dumps({"step": step}) + "\n" for step in range(1000)) + '{"step": 10')
    assert [line["step"] for line in last_lines(path, 54)] == [997, 998, 999]
    assert last_lines(tmp_path / "none") == []


def test_a_record_that_cannot_be_read_is_listed_with_its_problem(tmp_path: Path) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "run.json").write_text("{")
    (view,) = view_runs(tmp_path)
    assert view.problem is not None
    lines = run_lines([view], tmp_path)
    assert "unreadable" in lines[1]
    assert lines[-1].startswith(f"✖ bad: {tmp_path}/bad/run.json is not JSON")


def test_no_runs_says_what_to_do(tmp_path: Path) -> None:
    assert list_runs(tmp_path / "none") == []
    assert run_lines([], tmp_path) == [
        f"No runs in {tmp_path}. `kerneltui demo` makes one; `kerneltui launch` starts your own."
    ]


def test_an_unknown_run_gets_the_nearest_name(tmp_path: Path) -> None:
    (tmp_path / "calm-otter").mkdir()
    (tmp_path / "calm-otter" / "run.json").write_text("{}")
    assert find_run(tmp_path, "calm-otter").name == "calm-otter"
    assert find_run(tmp_path / "elsewhere", str(tmp_path / "calm-otter")).name == "calm-otter"
    with pytest.raises(UsageError) as raised:
        find_run(tmp_path, "calm-oter")
    assert (
        str(raised.value) == f"No run 'calm-oter' in {tmp_path}\n`kerneltui runs` lists them.\nDid you mean calm-otter?"
    )
    with pytest.raises(UsageError):
        find_run(tmp_path, "../calm-otter")


def test_following_gives_every_line_and_the_end(tmp_path: Path) -> None:
    run = make_run(
        tmp_path / "run",
        """
        import time
        with open("metrics.jsonl", "a") as file:
            for step in range(1, 4):
                values = {"loss": 1 / step, "num_tokens": 1e6, "grad_norm": "NaN", "note": "\\x1b[31mred"}
                line = {"time": f"2026-12-01T10:00:0{step}+00:00", "kind": "log", "step": step, "values": values}
                file.write(json.dumps(line) + "\\n")
        end('failed', {'type': 'ValueError', 'message': 'bad\\x1b]0;x\\x07 row'})
        raise SystemExit(1)
        """,
    )  # fmt: skip
    start_supervisor(run)
    lines = list(follow(run))
    assert lines[:3] == [
        f"10:00:0{step}  step {step}  loss {1 / step:.4g}  num_tokens 1000000  grad_norm NaN  note red"
        for step in (1, 2, 3)
    ]
    assert lines[-1] == f"✖ run failed: ValueError: bad row  (log: {run.output(1)})"


@pytest.mark.parametrize(
    ("then", "text"),
    [("09:59:30", "30 s"), ("09:56:00", "4 m"), ("08:00:00", "2 h"), ("10:00:10", "0 s")],
)
def test_ages(then: str, text: str) -> None:
    from datetime import datetime

    assert age(f"2026-12-01T{then}+00:00", now=datetime.fromisoformat("2026-12-01T10:00:00+00:00")) == text
