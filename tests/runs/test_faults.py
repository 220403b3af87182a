"""What may happen to a run from outside: signals, full disks, damaged files, a clock that is set back, haste."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kerneltui.errors import KerneltuiError
from kerneltui.runs.checkpoints import judge_checkpoints
from kerneltui.runs.compare import compare
from kerneltui.runs.control import ask_run, watch_over
from kerneltui.runs.directory import ACTIVE, RunDirectory, read_lines
from kerneltui.runs.follow import follow
from kerneltui.runs.last_words import read_last_words
from kerneltui.runs.live import LiveRun
from kerneltui.runs.log import LogTail
from kerneltui.runs.processes import processes_of
from kerneltui.runs.report import run_report
from kerneltui.runs.resume import plan_resumption
from kerneltui.runs.supervisor import start_supervisor
from kerneltui.runs.view import view_run
from kerneltui.worker.record import Record
from tests.runs.checkpoints import make_checkpoint
from tests.runs.fakes import ago, make_record, make_run, set_state
from tests.waiting import until

WAITING = """
import pathlib, time
pathlib.Path("started").touch()
while not pathlib.Path("go").exists():
    time.sleep(0.02)
"""


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def _ended(run: RunDirectory) -> bool:
    return run.read_state().phase not in ACTIVE


def _started(run: RunDirectory) -> RunDirectory:
    start_supervisor(run)
    until(lambda: (run.path / "started").exists())
    until(lambda: run.read_state().phase == "running")
    return run


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV])
def test_the_signal_that_ended_training_is_told(tmp_path: Path, number: signal.Signals) -> None:
    run = _started(make_run(tmp_path / "run", WAITING))
    os.kill(run.read_state().pid or 0, number)
    until(lambda: _ended(run))
    assert (run.read_state().phase, run.read_state().reason) == ("killed", f"by signal {number.name}")
    assert processes_of(run.path) == []


def test_a_run_of_which_everything_was_killed_is_told_at_the_next_look(tmp_path: Path) -> None:
    run = _started(make_run(tmp_path / "run", "begin()\n" + WAITING))
    make_record(run)
    supervisor = psutil.Process(run.read_state().supervisor_pid or 0)
    supervisor.kill()
    for process in processes_of(run.path):
        process.kill()
    until(lambda: not processes_of(run.path))
    assert view_run(run).phase == "running", "nobody has looked yet"
    until(lambda: _ended(run))
    assert run.read_state().phase == "killed"
    assert str(run.read_state().reason).startswith("rank 0 ended without a word (probably SIGKILL")


def test_of_two_supervisors_that_come_at_once_one_starts_training(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", "open('trainings', 'a').write('x')\nend('finished')")
    both = [start_supervisor(run) for _ in range(3)]
    until(lambda: _ended(run))
    for supervisor in both:
        assert supervisor.wait(timeout=60) == 0
    assert (run.path / "trainings").read_text() == "x"
    assert [event["event"] for event in read_lines(run.events)].count("run_end") == 1


def test_a_stop_that_is_asked_twice_while_it_starts_waits_for_the_first_step(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", "")
    ask_run(run, "stop")
    ask_run(run, "stop")
    assert json.loads(run.request.read_bytes())["action"] == "stop"


@pytest.mark.parametrize("hours", [-5, 5])
def test_a_clock_that_is_set_back_or_forward_hides_no_run(tmp_path: Path, hours: float) -> None:
    run = make_run(tmp_path / "run", "end('finished')", updated=ago(3600 * hours))
    watch_over(run)
    if hours < 0:  # written in what is now the future: its supervisor is gone
        until(lambda: _ended(run))
        assert run.read_state().phase == "finished"
    else:  # long ago: too late to start it
        until(lambda: _ended(run))
        assert run.read_state().phase == "failed"


def test_times_that_go_back_give_no_time_below_zero(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", "", phase="failed")
    make_record(run)
    now = datetime.now().astimezone()
    lines: list[dict[str, Any]] = [
        {"time": (now - timedelta(seconds=60 * place)).isoformat(), "attempt": 1, "kind": "progress", "step": place,
         "total": 100, "seconds_per_step": 0.5} for place in range(1, 20)
    ]  # fmt: skip
    run.metrics.write_text("".join(json.dumps(line) + "\n" for line in lines))
    view = LiveRun(run).poll(now=now)
    assert (view.step, view.seconds_per_step) == (19, 0.5)


def test_a_full_disk_costs_no_line_that_was_written_and_not_the_training(tmp_path: Path) -> None:
    program = """
import resource, sys
from pathlib import Path
from kerneltui.worker.record import Record
record = Record(Path(sys.argv[1]), 1, 0)
resource.setrlimit(resource.RLIMIT_FSIZE, (3000, resource.RLIM_INFINITY))
for step in range(100):
    record.metrics("log", step=step, values={"loss": 1.0})
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
record.metrics("log", step=100, values={"loss": 1.0})
"""
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "could not write metrics.jsonl: File too large" in done.stdout
    steps = [line["step"] for line in read_lines(tmp_path / "metrics.jsonl")]
    assert steps == [*range(len(steps) - 1), 100]
    assert len(steps) > 20


def test_a_checkpoint_that_a_full_disk_cut_off_is_passed_over(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", "", phase="failed")
    record = make_record(run)
    good = make_checkpoint(Path(record.output_dir), 40)
    cut = make_checkpoint(Path(record.output_dir), 50)
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        try:
            (cut / "optimizer.pt").write_bytes(bytes(5000))
        except OSError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    found = plan_resumption(run)
    assert (found.checkpoint.path, [passed.path for passed in found.passed_over]) == (good, [cut])


def test_a_huge_log_with_one_endless_line_is_read_in_bounded_parts(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    with path.open("wb") as file:
        file.seek(2 << 30)  # with holes: as large as it says, and quickly made
        file.write(b"x" * (8 << 20) + b"\nthe end\n")
    before = psutil.Process().memory_info().rss
    assert LogTail(path).poll().lines[-1] == "the end"
    assert read_last_words(path).line == "the end"
    assert psutil.Process().memory_info().rss - before < 200 << 20


READERS: tuple[Callable[[RunDirectory], object], ...] = (
    view_run,
    lambda run: LiveRun(run).poll(),
    lambda run: list(follow(run)),
    run_report,
    plan_resumption,
    lambda run: judge_checkpoints(run, run.read_run()),
    lambda run: compare([run, run]),
)
FILES = ("run.json", "state.json", "events.jsonl", "metrics.jsonl", "system.jsonl", "notes.toml", "request",
         "attempts/1/output.log", "attempts/1/command.json", "output/checkpoint-40/trainer_state.json",
         "output/checkpoint-40/model.safetensors", "output/checkpoint-40/optimizer.pt")  # fmt: skip


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunDirectory, dict[str, bytes]]]:
    """Return a run that has failed, whole, and what its files hold."""
    run = make_run(tmp_path_factory.mktemp("damaged") / "run", "")
    set_state(run, phase="failed", reason="E: m")
    make_checkpoint(Path(make_record(run).output_dir), 40)
    record = Record(run.path, 1, 0)
    record.event("train_begin", step=0, total=9, attention="sdpa", kernels=[], world_size=1, settings={"a": 1})
    record.event("alert", id="x", severity="warn", text="t", next_step="n")
    for step in range(5):
        record.metrics("log", step=step, epoch=0.1, values={"loss": 1.0 - step})
        record.metrics("progress", step=step, total=9, seconds_per_step=0.1)
    run.system.write_text(json.dumps({"gpus": [{"index": 0}], "memory_used": 1, "memory_total": 2}) + "\n")
    run.output(1).write_text("Traceback (most recent call last):\n  File x\nKeyError: 'a'\n")
    (run.path / "notes.toml").write_text('tags = ["a"]\n')
    run.request.write_text('{"action": "stop", "time": ""}')
    yield run, {name: (run.path / name).read_bytes() for name in FILES}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(FILES),
    cut=st.floats(0, 1),
    junk=st.binary(max_size=40) | st.sampled_from([b"null\n", b"[]\n", b'{"attempt": [], "event": {}}\n', b"\n\n{"]),
    inside=st.booleans(),
)
def test_damaged_files_break_no_reader(
    damaged: tuple[RunDirectory, dict[str, bytes]], name: str, cut: float, junk: bytes, inside: bool
) -> None:
    run, whole = damaged
    place = int(cut * len(whole[name]))
    (run.path / name).write_bytes(whole[name][:place] + junk + (whole[name][place + len(junk) :] if inside else b""))
    try:
        for reader in READERS:
            try:
                reader(run)
            except KerneltuiError as error:
                assert error.title
    finally:
        (run.path / name).write_bytes(whole[name])
