from __future__ import annotations

import errno
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest

from kerneltui.errors import KerneltuiError
from kerneltui.facts.gpu import GpuSample
from kerneltui.paths import write_atomically
from kerneltui.runs import journal, machine, supervisor
from kerneltui.runs.control import ask_run, pending, watch_over
from kerneltui.runs.directory import ACTIVE, RunDirectory, read_lines
from kerneltui.runs.journal import append_line
from kerneltui.runs.machine import Machine
from kerneltui.runs.processes import end_processes, processes_of
from kerneltui.runs.supervisor import Supervisor, start_supervisor
from tests.runs import fakes
from tests.runs.fakes import NoGpus, make_run
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


@pytest.mark.parametrize(
    ("waiting", "asked", "stays"),
    [
        ("stop", "checkpoint", "stop"), ("kill", "checkpoint", "kill"), ("kill", "stop", "kill"),
        ("checkpoint", "stop", "stop"), ("stop", "kill", "kill"), ("checkpoint", "checkpoint", "checkpoint"),
    ],
)  # fmt: skip
def test_of_two_requests_the_stronger_waits(tmp_path: Path, waiting: Any, asked: Any, stays: str) -> None:
    run = make_run(tmp_path / "run", "")
    ask_run(run, waiting)
    ask_run(run, asked)
    request = pending(run)
    assert request is not None
    assert request.action == stays


def test_what_is_no_request_does_not_stand_in_the_way_of_one(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", "")
    run.request.write_text("{")
    ask_run(run, "checkpoint")
    assert pending(run) is not None


class FullDisk:
    """A disk that takes nothing until `space` is made. State and events lie on it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = True
        self.tries = 0
        real_append = journal.append_line

        def write(path: Path, data: bytes) -> None:
            self._check(KerneltuiError("Cannot write"))
            write_atomically(path, data)

        def append(path: Path, value: object) -> None:
            self._check(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
            real_append(path, value)

        monkeypatch.setattr("kerneltui.runs.directory.write_atomically", write)
        monkeypatch.setattr(journal, "append_line", append)
        monkeypatch.setattr(journal, "_PAUSES", (0.01, 0.02))

    def _check(self, error: Exception) -> None:
        if self.full:
            self.tries += 1
            raise error


def test_a_state_that_a_full_disk_refused_is_written_when_there_is_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run", WAITING + "end('finished')")
    disk = FullDisk(monkeypatch)
    supervising = threading.Thread(target=Supervisor(run, gpus=NoGpus()).supervise, daemon=True)
    supervising.start()
    until(lambda: (run.path / "started").exists() and disk.tries > 3)
    assert run.read_state().phase == "starting"
    disk.full = False
    until(lambda: run.read_state().phase == "running")
    disk.full = True
    (run.path / "go").touch()
    until(lambda: not processes_of(run.path))
    tries = disk.tries
    until(lambda: disk.tries > tries + 5)
    assert run.read_state().phase == "running"
    disk.full = False
    supervising.join(timeout=60)
    assert run.read_state().phase == "finished"
    assert [event["event"] for event in read_lines(run.events)] == ["run_begin", "process_end", "run_end"]


def test_a_supervisor_does_not_wait_for_a_directory_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run", "import shutil; shutil.rmtree(os.environ['KERNELTUI_RUN'])")
    FullDisk(monkeypatch)
    monkeypatch.setattr(Machine, "sample", lambda self: None)
    Supervisor(run, gpus=NoGpus()).supervise()
    assert not run.path.exists()


def test_a_line_after_a_full_disk_stands_on_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, real = tmp_path / "events.jsonl", os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda descriptor, data: real(descriptor, data[:9]))
        with pytest.raises(OSError, match="a part of a line"):
            append_line(path, {"event": "kill", "number": 1})
    for number in (2, 3):
        append_line(path, {"event": "kill", "number": number})
    assert [line["number"] for line in read_lines(path)] == [2, 3]
    assert path.read_bytes().count(b"\n") == 3


HELPER = """
import subprocess, sys
begin()
helper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
open("helper", "w").write(str(helper.pid))
"""


def test_a_helper_that_lingers_does_not_keep_a_run_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(tmp_path / "run", HELPER + "end('finished')")
    monkeypatch.setattr(supervisor, "_GRACE", 0.5)
    Supervisor(run, gpus=NoGpus()).supervise()
    assert (run.read_state().phase, run.read_state().exit_code) == ("finished", 0)
    helper = int((run.path / "helper").read_text())
    (left,) = [event for event in read_lines(run.events) if event["event"] == "left_running"]
    assert left["pids"] == [helper]
    assert [process.pid for process in processes_of(run.path)] == [helper], "it may have something to bring home"
    end_processes(run.path)


def test_a_helper_of_a_rank_that_was_killed_does_not_keep_a_run_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run", HELPER + "import os; os.kill(os.getpid(), 9)")
    monkeypatch.setattr(supervisor, "_GRACE", 0.5)
    Supervisor(run, gpus=NoGpus()).supervise()
    assert run.read_state().phase == "killed"
    end_processes(run.path)


def test_a_rank_that_outlives_its_launcher_keeps_a_run_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(
        tmp_path / "run",
        "import subprocess, sys; subprocess.Popen([sys.executable, '-c', open('rank.py').read()])",
    )
    (run.path / "rank.py").write_text(fakes.RECORD + "begin()\n" + WAITING + "end('finished')")
    monkeypatch.setattr(supervisor, "_GRACE", 0.1)
    supervising = threading.Thread(target=Supervisor(run, gpus=NoGpus()).supervise, daemon=True)
    supervising.start()
    until(lambda: (run.path / "started").exists())
    launcher = run.read_state().pid
    until(lambda: launcher not in [process.pid for process in processes_of(run.path)])
    supervising.join(timeout=1.5)
    assert supervising.is_alive()
    assert run.read_state().phase == "running"
    (run.path / "go").touch()
    supervising.join(timeout=60)
    assert run.read_state().phase == "finished"


class HangingDriver:
    """Answers once, then never again until `released`, as a driver with a broken GPU does."""

    def __init__(self) -> None:
        self.answers = 0
        self.released = threading.Event()

    def sample(self) -> tuple[GpuSample, ...]:
        if self.answers:
            self.released.wait()
        self.answers += 1
        return (GpuSample(index=0, uuid="GPU-0", utilization=99),)

    def close(self) -> None:
        pass


def test_a_driver_that_hangs_hides_neither_a_kill_nor_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "INTERVAL", 0.05)
    monkeypatch.setattr(machine, "_PATIENCE", 0.2)
    run = make_run(tmp_path / "run", WAITING)
    driver = HangingDriver()
    supervising = threading.Thread(target=Supervisor(run, gpus=driver).supervise, daemon=True)
    supervising.start()
    until(lambda: (run.path / "started").exists())
    gpu = until(lambda: [line["gpus"][0] for line in read_lines(run.system) if line["gpus"][0]["unavailable"]])[0]
    assert gpu["unavailable"]["gpu"].startswith("the driver has not answered for ")
    assert (gpu["index"], gpu["uuid"], gpu["utilization"]) == (0, "GPU-0", None)
    assert read_lines(run.system)[0]["gpus"][0]["utilization"] == 99
    ask_run(run, "kill")
    supervising.join(timeout=60)
    driver.released.set()
    assert run.read_state().phase == "killed"


def test_a_driver_that_never_answers_leaves_the_other_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_PATIENCE", 0.1)
    driver = HangingDriver()
    driver.answers = 1
    with Machine(tmp_path, driver) as sampled:
        sample = until(sampled.sample)
        assert sampled.sample() is None, "the next is not due yet"
    driver.released.set()
    assert sample is not None
    assert sample.gpus == ()
    assert sample.disk_free > 0


def test_only_its_owner_reads_what_a_run_prints(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        run = make_run(tmp_path / "run", "print('secret')")
        start_supervisor(run)
        until(lambda: _ended(run))
    finally:
        os.umask(old)
    for path in (run.output(1), run.path / "supervisor.log", run.events, run.path / "state.json", run.lock):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_a_working_directory_that_is_gone_is_named(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", "")
    path = run.path / "attempts/1/command.json"
    path.write_text(path.read_text().replace(f'"cwd": "{run.path}"', f'"cwd": "{tmp_path}/gone"'))
    Supervisor(run, gpus=NoGpus()).supervise()
    assert run.read_state().phase == "failed"
    assert run.read_state().reason == f"cannot start {sys.executable}: No such file or directory ({tmp_path}/gone)"


def test_an_attempt_without_its_command_is_a_failure(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", "")
    shutil.rmtree(run.attempt(1))
    Supervisor(run, gpus=NoGpus()).supervise()
    assert run.read_state().phase == "failed"
    assert str(run.read_state().reason).startswith("cannot start: Cannot read ")


def test_a_full_disk_does_not_keep_a_run_from_being_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(tmp_path / "run", "import time\ntime.sleep(600)")
    start_supervisor(run)
    until(lambda: run.read_state().phase == "running")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("kerneltui.paths.os.fsync", full)
    with pytest.raises(KerneltuiError) as raised:
        ask_run(run, "stop")
    assert str(raised.value) == (
        "Cannot ask run for anything\nNo space left on device\n"
        "Make room on that disk. To end the run at once needs none: stop with --now."
    )
    ask_run(run, "kill")
    until(lambda: run.read_state().phase not in ACTIVE)
    assert run.read_state().phase == "killed"
