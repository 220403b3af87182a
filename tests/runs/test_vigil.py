"""The watch over a real process: alerts in the record, the person's command, where a run stands that hangs."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest

from kerneltui.plan.plan import Launch, Plan
from kerneltui.runs import vigil
from kerneltui.runs.control import ask_run
from kerneltui.runs.directory import RunDirectory, read_lines
from kerneltui.runs.health import pace
from kerneltui.runs.journal import Journal
from kerneltui.runs.stacks import take_stacks, where
from kerneltui.runs.supervisor import Supervisor
from kerneltui.runs.vigil import Vigil
from tests.runs.fakes import NoGpus, make_record, make_run
from tests.waiting import until

# What a trainer writes, by the functions of the fake record.
TRAINING = """
import pathlib, time
from datetime import datetime
def now(): return datetime.now().astimezone().isoformat()
def log(step, **values):
    line = {"time": now(), "attempt": 1, "kind": "log", "step": step, "values": values}
    with open("metrics.jsonl", "a") as file:
        file.write(json.dumps(line) + "\\n")
def wait():
    while not pathlib.Path("go").exists():
        time.sleep(0.02)
"""


def _alerts(run: RunDirectory) -> list[dict[str, Any]]:
    return [event for event in read_lines(run.events) if event["event"] == "alert"]


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vigil, "INTERVAL", 0.05)


def _supervise(run: RunDirectory) -> threading.Thread:
    supervising = threading.Thread(target=Supervisor(run, gpus=NoGpus()).supervise, daemon=True)
    supervising.start()
    return supervising


def test_an_alert_is_recorded_when_nobody_watches_and_the_persons_command_is_run(tmp_path: Path) -> None:
    run = make_run(
        tmp_path / "run",
        TRAINING + "begin(); log(1, loss=2.0); log(2, loss='NaN', grad_norm='NaN'); wait(); end('finished')",
    )
    command = f'cat > "{tmp_path}/told.json"; printf %s "$KERNELTUI_ALERT_TEXT" > "{tmp_path}/text"'
    make_record(run, plan=Plan(trainer="sft", cwd="/work", launch=Launch(on_alert=command)))
    supervising = _supervise(run)
    until(lambda: (tmp_path / "text").exists() and (tmp_path / "text").read_text())
    (run.path / "go").touch()
    supervising.join(timeout=60)
    (alert,) = _alerts(run)
    assert (alert["id"], alert["severity"]) == ("not_finite", "block")
    assert alert["text"].startswith("loss is not finite since step 2")
    told = json.loads((tmp_path / "told.json").read_bytes())
    assert (told["run"], told["path"], told["alert"]["id"]) == ("run", str(run.path), "not_finite")
    assert (tmp_path / "text").read_text() == alert["text"]


def test_an_end_that_nobody_asked_for_is_told_and_its_words_are_no_command(tmp_path: Path) -> None:
    words = f"$(touch {tmp_path}/pwned); `touch {tmp_path}/pwned`"
    error = {"type": "ValueError", "message": words}
    run = make_run(tmp_path / "run", f"begin(); end('failed', {error!r}); raise SystemExit(1)")
    command = f'echo $KERNELTUI_ALERT_ID "$KERNELTUI_ALERT_TEXT" > "{tmp_path}/told"'
    make_record(run, plan=Plan(trainer="sft", cwd="/work", launch=Launch(on_alert=command)))
    _supervise(run).join(timeout=60)
    assert (tmp_path / "told").read_text() == f"ended run failed: ValueError: {words}\n"
    assert not (tmp_path / "pwned").exists()


def test_a_command_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kerneltui.runs.on_alert._LIMIT", 0.2)
    run = make_run(tmp_path / "run", "begin(); end('failed', {'type': 'E', 'message': 'm'}); raise SystemExit(1)")
    command = f'echo $$ > "{tmp_path}/pid"; sleep 600'
    make_record(run, plan=Plan(trainer="sft", cwd="/work", launch=Launch(on_alert=command)))
    _supervise(run).join(timeout=60)
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))


HANGING = """
import faulthandler, os, pathlib, signal
path = os.environ["KERNELTUI_RUN"] + "/attempts/1/stacks-0.txt"
faulthandler.register(signal.SIGUSR2, file=open(path, "a"), all_threads=True)
event("process_start", pid=os.getpid(), stacks=path, stacks_signal=int(signal.SIGUSR2))
event("train_begin", time=now(), step=0)
def all_reduce():
    wait()
all_reduce()
end("finished")
"""


def test_a_run_that_hangs_says_where_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "_FIRST", 0.3)
    run = make_run(tmp_path / "run", TRAINING + HANGING)
    make_record(run)
    supervising = _supervise(run)
    (alert,) = until(lambda: _alerts(run))
    assert alert["id"] == "stalled"
    assert alert["why"].startswith("Not even the first step has ended. Rank 0 is in wait (")
    assert "all_reduce" in (run.attempt(1) / "stacks-0.txt").read_text()
    ask_run(run, "kill")
    supervising.join(timeout=60)
    assert run.read_state().phase == "killed"


def test_the_worker_has_its_stacks_ready(tmp_path: Path) -> None:
    run = make_run(
        tmp_path / "run",
        """
        import sys, time
        from pathlib import Path
        from kerneltui.worker.record import Record
        from kerneltui.worker.train import _ready_stacks
        event("process_start", pid=os.getpid(), **_ready_stacks(Record(Path(os.environ["KERNELTUI_RUN"]), 1, 0)))
        def stands_here():
            time.sleep(600)
        stands_here()
        """,
    )
    supervising = _supervise(run)
    (start,) = until(lambda: [event for event in read_lines(run.events) if event["event"] == "process_start"])
    assert start["stacks_signal"] == signal.SIGUSR2
    told = take_stacks({0: (psutil.Process(start["pid"]), Path(start["stacks"]), start["stacks_signal"])})
    assert told[0].startswith("stands_here (")
    assert Path(start["stacks"]).stat().st_mode & 0o777 == 0o600
    ask_run(run, "kill")
    supervising.join(timeout=60)


def test_a_process_that_is_gone_has_no_stack(tmp_path: Path) -> None:
    path = tmp_path / "stacks-0.txt"
    path.touch()
    gone = psutil.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert take_stacks({0: (gone, path, signal.SIGUSR2)}) == {}


@pytest.mark.parametrize(
    ("frames", "words"),
    [
        (['File "/env/torch/utils/data/dataloader.py", line 9 in _try_get_data'],
         "_try_get_data (data/dataloader.py, line 9): it waits for data"),
        (['File "/env/torch/distributed/distributed_c10d.py", line 7 in all_reduce'],
         "all_reduce (distributed/distributed_c10d.py, line 7): it waits for another rank"),
        (['File "/work/reward.py", line 1 in score', 'File "/env/httpx/_client.py", line 3 in send'],
         "score (work/reward.py, line 1): it waits for the network"),
        (['File "/work/a\x1b[2J.py", line 1 in score'], "score (work/a.py, line 1)"),
        ([], None),
    ],
)  # fmt: skip
def test_stacks_are_read_by_their_innermost_frames(frames: list[str], words: str | None) -> None:
    other = 'Thread 0x1 (most recent call first):\n  File "/x/threading.py", line 1 in wait\n\n'
    stack = other + "Current thread 0x2 (most recent call first):\n" + "".join(f"  {frame}\n" for frame in frames)
    assert where(stack) == words


def test_a_rank_that_is_gone_while_others_wait_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vigil, "_RANK_GONE", 0.0)
    run = make_run(tmp_path / "run", "")
    gone = psutil.Popen([sys.executable, "-c", ""])
    gone.wait()
    watch = Vigil(run, Journal(run))
    for rank, pid in ((0, os.getpid()), (1, gone.pid)):
        watch.add_event({"attempt": 1, "event": "process_start", "rank": rank, "pid": pid})

    def told() -> list[dict[str, Any]]:
        watch.look()
        return _alerts(run)

    until(told)
    assert [alert["id"] for alert in _alerts(run)] == ["rank_died:1"]


@pytest.mark.parametrize(("step", "found"), [(0, ["not_resumed"]), (40, [])])
def test_a_resume_that_starts_anew_is_told(tmp_path: Path, step: int, found: list[str]) -> None:
    run = make_run(tmp_path / "run", "")
    make_record(run)
    command = run.read_command(1)
    argv = [*command.argv, "--resume_from_checkpoint", "/runs/checkpoint-40"]
    run.write("attempts/1/command.json", {"schema": 1, "argv": argv, "cwd": "/", "environment": {}})
    Vigil(run, Journal(run)).add_event({"attempt": 1, "event": "train_begin", "step": step, "attention": "sdpa"})
    assert [alert["id"] for alert in _alerts(run)] == found
