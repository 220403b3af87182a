from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kerneltui.runs.directory import RunDirectory
from kerneltui.runs.follow import ending, follow
from kerneltui.runs.supervisor import start_supervisor
from kerneltui.runs.tail import JsonTail
from kerneltui.runs.view import last_lines, view_run, view_runs
from kerneltui.show import age, run_lines
from tests.runs.fakes import ago, make_record, make_run, set_state


def test_half_a_line_waits_for_its_other_half(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    reader = JsonTail(path)
    assert reader.read_all() == []
    path.write_bytes(b'{"step": 1}\n{"st')
    assert reader.read_all() == [{"step": 1}]
    with path.open("ab") as file:
        file.write('ep": 2, "name": "你好"}\n'.encode())
    assert reader.read_all() == [{"step": 2, "name": "你好"}]
    assert reader.read_all() == []


def test_lines_that_are_no_objects_are_counted_and_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step": 1}\nnonsense\n3\n\xff\xfe\n{"step": 2}\n')
    with path.open("ab") as file:
        file.write(b"\n")  # an empty line is no record that was lost
    monkeypatch.setattr("kerneltui.runs.tail._SLICE", 7)
    reader = JsonTail(path)
    assert reader.read_all() == [{"step": 1}, {"step": 2}]
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
    # The lines break where the terminal ends.
    assert f"✖bad:{tmp_path}/bad/run.jsonisnotJSON" in "".join("".join(lines).split())


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


def _write(path: Path, *lines: dict[str, Any]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def _progress(step: int, attempt: int = 1) -> dict[str, Any]:
    return {"kind": "progress", "attempt": attempt, "step": step, "total": 20, "seconds_per_step": 0.5}


def _log(step: int, attempt: int = 1) -> dict[str, Any]:
    return {"kind": "log", "attempt": attempt, "step": step, "values": {"loss": 1 / step}}


@pytest.mark.parametrize(
    ("lines", "step"),
    [
        ([], None),
        ([_progress(7), _log(8)], 8),
        ([_log(7), _progress(9)], 9),
        ([_log(3)], 3),
        # A later attempt goes on from an earlier step.
        ([_progress(12), _log(12), _log(5, 2)], 5),
    ],
)
def test_the_step_is_the_last_one_that_was_recorded(
    tmp_path: Path, lines: list[dict[str, Any]], step: int | None
) -> None:
    run = make_run(tmp_path / "run", "", phase="finished")
    make_record(run)
    _write(run.metrics, *lines)
    assert view_run(run).step == step


def test_runs_are_listed_by_when_they_were_started(tmp_path: Path) -> None:
    # Attempts of later, and files that others put into a run, change its directory but not its place.
    for seconds, name, phase in ((300, "old", "finished"), (100, "new", "finished"), (200, "middle", "failed"),
                                 (400, "live", "running")):  # fmt: skip
        run = make_run(tmp_path / name, "", phase=phase, hostname="gpu-7", started=ago(seconds))
        make_record(run)
    (tmp_path / "old" / "notes.toml").write_text("")
    make_record(make_run(tmp_path / "unstarted", "", phase="failed"), time=ago(150))
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "run.json").write_text("{")
    assert [view.name for view in view_runs(tmp_path)] == ["live", "new", "unstarted", "middle", "old", "bad"]


def _ending(run: RunDirectory, **state: Any) -> str:
    set_state(run, **state)
    return ending(run, run.read_state())


def test_the_end_says_where_the_results_are(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", "")
    make_record(run, output_dir="/data/my model")
    checkpoints = [
        {"event": "checkpoint", "step": step, "path": f"/data/my model/checkpoint-{step}"} for step in (1, 2)
    ]
    _write(run.events, *checkpoints)
    assert _ending(run, phase="finished") == "✔ run finished; the model is in /data/my model"
    assert _ending(run, phase="stopped", reason="by request, with a checkpoint") == (
        "✔ run stopped: by request, with a checkpoint; the model is in /data/my model; "
        "the last checkpoint is /data/my model/checkpoint-2"
    )
    assert _ending(run, phase="failed", reason="a\nb") == f"✖ run failed: a b  (log: {run.output(1)})"


def test_what_is_followed_tells_how_far_it_is_and_cannot_rewrite_the_terminal(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", "", phase="finished")
    time = "2026-12-01T10:00:0"
    _write(
        run.events,
        {"time": f"{time}1", "event": "train_begin", "total": 20, "attention": "sdpa\x1b[2J", "kernels": None},
        {"time": f"{time}3", "event": "checkpoint", "step": 3, "path": "/x\r/y\n\u202e"},
        {"time": f"{time}4", "event": "alert", "severity": "block", "text": "a\x07 b", "next_step": "Stop it."},
        {"time": f"{time}5", "event": "request", "action": "stop", "step": 4},
        {"time": f"{time}6", "event": "recorder_failed", "place": "on_log", "error": {"type": "E", "message": "m"}},
        {"time": "2026-12-01T\x1b[2J9:07", "event": "kill"},
    )
    _write(run.metrics, {"time": f"{time}2", "kind": "log", "step": 3, "values": {"l\ross": 0.25, "n": "\x1b[31m1"}})
    lines = list(follow(run))
    assert lines[:7] == [
        "9:07  ending all processes",
        "10:00:01  training 20 steps; attention in use: sdpa",
        "10:00:02  step 3/20  oss 0.25  n 1",
        "10:00:03  checkpoint at step 3/20: /y",
        "10:00:04  ✖ a b. Stop it.",
        "10:00:05  stop carried out at step 4/20",
        "10:00:06  ▲ the record has gaps (E: m); training goes on",
    ]
    assert all(line.isprintable() for line in lines)
