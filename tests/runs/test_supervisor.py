from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from kerneltui.errors import KerneltuiError
from kerneltui.runs.control import ask_run, watch_over
from kerneltui.runs.directory import ACTIVE, RunDirectory, read_lines
from kerneltui.runs.processes import processes_of
from kerneltui.runs.supervisor import start_supervisor
from tests.runs.fakes import make_run
from tests.waiting import until

WAITING = """
import pathlib, time
pathlib.Path("started").touch()
while not pathlib.Path("go").exists():
    time.sleep(0.02)
"""


def _ended(run: RunDirectory) -> bool:
    return run.read_state().phase not in ACTIVE


def _start(run: RunDirectory) -> None:
    start_supervisor(run)
    until(lambda: (run.path / "started").exists())
    until(lambda: run.read_state().phase == "running")


@pytest.mark.parametrize(
    ("training", "phase", "code", "reason"),
    [
        ("end('finished')", "finished", 0, None),
        ("end('stopped')", "stopped", 0, "by request, with a checkpoint"),
        (
            "end('failed', {'type': 'ValueError', 'message': 'no such column'}); raise SystemExit(1)",
            "failed", 1, "ValueError: no such column",
        ),
        ("print('usage: trl'); print('error: bad flag'); raise SystemExit(2)", "failed", 2, "error: bad flag"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "killed", -9, "by signal SIGKILL"),
    ],
)  # fmt: skip
def test_the_end_of_a_run_is_written_with_its_reason(
    tmp_path: Path, training: str, phase: str, code: int, reason: str | None
) -> None:
    run = make_run(tmp_path / "run", training)
    start_supervisor(run)
    until(lambda: _ended(run))
    state = run.read_state()
    assert (state.phase, state.exit_code, state.reason) == (phase, code, reason)
    assert read_lines(run.events)[-1]["event"] == "run_end"


def test_a_program_that_cannot_start_is_a_failure(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", "")
    command = (run.path / "attempts/1/command.json").read_text().replace(sys.executable, "/no/such/python")
    (run.path / "attempts/1/command.json").write_text(command)
    start_supervisor(run)
    until(lambda: _ended(run))
    assert run.read_state().reason == "cannot start /no/such/python: No such file or directory"


def test_the_record_of_the_machine_is_sampled(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", WAITING)
    _start(run)
    sample = until(lambda: read_lines(run.system))[0]
    assert sample["attempt"] == 1
    assert 0 < sample["memory_used"] < sample["memory_total"]
    assert isinstance(sample["gpus"], list)
    (run.path / "go").touch()
    until(lambda: _ended(run))


def test_only_one_supervisor_writes(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", WAITING)
    _start(run)
    first = run.read_state().supervisor_pid
    second = subprocess.run([sys.executable, "-P", "-m", "kerneltui.runs.supervisor", str(run.path)], timeout=60)
    assert second.returncode == 0
    assert run.read_state().supervisor_pid == first
    (run.path / "go").touch()
    until(lambda: _ended(run))


def test_stop_now_ends_every_process_of_the_run(tmp_path: Path) -> None:
    # A rank in a session of its own that ignores TERM, as torch's elastic agent starts them.
    run = make_run(
        tmp_path / "run",
        """
        import pathlib, subprocess, sys, time
        deaf = "import signal as s, time; s.signal(s.SIGTERM, s.SIG_IGN); print(1, flush=True); time.sleep(600)"
        child = subprocess.Popen([sys.executable, "-c", deaf], start_new_session=True, stdout=subprocess.PIPE)
        child.stdout.readline()
        pathlib.Path("started").touch()
        time.sleep(600)
        """,
    )
    _start(run)
    assert len(processes_of(run.path)) == 2
    ask_run(run, "kill")
    until(lambda: _ended(run))
    assert run.read_state().phase == "killed"
    assert run.read_state().reason == "by request (stop --now)"
    assert processes_of(run.path) == []
    assert not run.request.exists()


def test_a_run_lives_on_without_its_supervisor_and_is_taken_over(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", WAITING + "end('finished')")
    _start(run)
    old = run.read_state().supervisor_pid
    assert old
    os.kill(old, signal.SIGKILL)
    until(lambda: not psutil.pid_exists(old) or psutil.Process(old).status() == psutil.STATUS_ZOMBIE)
    assert processes_of(run.path)
    watch_over(run)
    until(lambda: run.read_state().supervisor_pid != old)
    (run.path / "go").touch()
    until(lambda: _ended(run))
    assert (run.read_state().phase, run.read_state().exit_code) == ("finished", None)


def test_the_launcher_alone_does_not_end_a_run(tmp_path: Path) -> None:
    run = make_run(
        tmp_path / "run",
        "import subprocess, sys; subprocess.Popen([sys.executable, '-c', open('rank.py').read()])",
    )
    (run.path / "rank.py").write_text(WAITING)
    _start(run)
    launcher = run.read_state().pid
    assert launcher
    until(lambda: launcher not in [process.pid for process in processes_of(run.path)])
    assert run.read_state().phase == "running"
    (run.path / "go").touch()
    until(lambda: _ended(run))


def test_a_hangup_of_the_supervisor_harms_nothing(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", WAITING + "end('finished')")
    _start(run)
    supervisor = run.read_state().supervisor_pid
    assert supervisor
    os.kill(supervisor, signal.SIGHUP)
    (run.path / "go").touch()
    until(lambda: _ended(run))
    assert (run.read_state().phase, run.read_state().exit_code) == ("finished", 0)
    assert run.read_state().supervisor_pid == supervisor


def test_asking_an_ended_run_says_what_it_is(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", "end('finished')")
    start_supervisor(run)
    until(lambda: _ended(run))
    with pytest.raises(KerneltuiError) as raised:
        ask_run(run, "stop")
    assert str(raised.value) == "run is not running\nIt is finished.\n`kerneltui runs` lists all runs."
