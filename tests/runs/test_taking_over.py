"""Supervisors that come late: after one that died in its first moments, after a restart, on another machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from kerneltui.errors import KerneltuiError
from kerneltui.runs import control
from kerneltui.runs.contact import lost_since
from kerneltui.runs.control import ask_run, watch_over
from kerneltui.runs.directory import ACTIVE, RunDirectory, read_lines
from kerneltui.runs.follow import follow
from kerneltui.runs.lock import holding
from kerneltui.runs.processes import ATTEMPT, MARK, Remembered, processes_of
from kerneltui.runs.supervisor import Supervisor
from kerneltui.runs.view import view_run
from tests.runs.fakes import NoGpus, ago, make_record, make_run, set_state
from tests.waiting import until

COUNTING = "open('trainings', 'a').write('x')\nend('finished')"


def _ended(run: RunDirectory) -> bool:
    return run.read_state().phase not in ACTIVE


def _trainings(run: RunDirectory) -> int:
    path = run.path / "trainings"
    return len(path.read_text()) if path.exists() else 0


def _marked(run: RunDirectory, program: str = "import time; time.sleep(60)") -> subprocess.Popen[bytes]:
    """Start a process of the run that its supervisor did not start."""
    return subprocess.Popen(
        [sys.executable, "-c", program], env={**os.environ, MARK: str(run.path), ATTEMPT: "1"}, start_new_session=True
    )


def test_a_run_whose_supervisor_died_at_once_is_started_by_who_looks(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", COUNTING, updated=ago(30))
    watch_over(run)
    until(lambda: _ended(run))
    assert (run.read_state().phase, _trainings(run)) == ("finished", 1)


def test_a_run_that_is_just_starting_is_left_to_its_supervisor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(tmp_path / "run", COUNTING)
    monkeypatch.setattr(control, "start_supervisor", pytest.fail)
    assert watch_over(run).phase == "starting"
    set_state(run, updated=ago(30))
    with holding(run.lock):
        assert watch_over(run).phase == "starting"


def test_a_supervisor_that_cannot_live_is_not_started_at_every_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run", COUNTING, updated=ago(30))
    started: list[RunDirectory] = []
    monkeypatch.setattr(control, "start_supervisor", started.append)
    for _ in range(5):
        watch_over(run)
    assert started == [run]


def test_training_that_an_earlier_supervisor_started_is_not_started_again(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", COUNTING)
    training = _marked(run, "import time; time.sleep(1)")
    until(lambda: processes_of(run.path))
    Supervisor(run, gpus=NoGpus()).supervise()
    state = run.read_state()
    assert state.pid == training.pid
    assert state.started
    assert (state.phase, _trainings(run)) == ("killed", 0)
    assert training.wait() == 0


def test_training_that_has_already_run_is_not_started_again(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", COUNTING)
    run.output(1).write_text("trained\n")
    Supervisor(run, gpus=NoGpus()).supervise()
    assert (run.read_state().phase, _trainings(run)) == ("killed", 0)


def test_training_is_not_started_long_after_it_was_asked_for(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", COUNTING, updated=ago(3600))
    Supervisor(run, gpus=NoGpus()).supervise()
    assert (run.read_state().phase, _trainings(run)) == ("failed", 0)
    assert run.read_state().reason == "its supervisor was lost before training began"


def test_a_second_attempt_is_not_taken_for_what_the_first_left_running(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", "")
    helper = _marked(run)
    until(lambda: processes_of(run.path, 1))
    assert processes_of(run.path, 2) == []
    helper.kill()
    helper.wait()


@pytest.mark.parametrize("phase", ["starting", "running"])
def test_a_restart_of_the_machine_loses_the_run(tmp_path: Path, phase: str) -> None:
    run = make_run(tmp_path / "run", COUNTING, phase=phase, boot_id="another-boot")
    make_record(run)
    run.system.write_text("{}\n")
    os.utime(run.system, (1_790_000_000, 1_790_000_000))
    view = view_run(run)
    assert (view.phase, view.reason) == ("lost", "the machine was restarted")
    state = run.read_state()
    assert (state.phase, state.reason) == ("lost", "the machine was restarted")
    assert state.ended is not None
    assert state.ended.startswith("2026-09-21")
    assert read_lines(run.events)[-1]["phase"] == "lost"
    assert _trainings(run) == 0
    with pytest.raises(KerneltuiError, match="It is lost: the machine was restarted"):
        ask_run(run, "stop")


def test_a_supervisor_that_comes_after_a_restart_starts_nothing(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", COUNTING, boot_id="another-boot")
    Supervisor(run, gpus=NoGpus()).supervise()
    assert (run.read_state().phase, _trainings(run)) == ("lost", 0)


def _elsewhere(folder: Path, **changes: Any) -> RunDirectory:
    run = make_run(folder, COUNTING, phase="running", hostname="gpu-7", boot_id="its-own", **changes)
    make_record(run)
    run.system.write_text("{}\n")
    return run


def test_a_run_on_another_machine_is_left_alone_and_says_where_it_is(tmp_path: Path) -> None:
    run = _elsewhere(tmp_path / "run")
    before = sorted(path.name for path in run.path.iterdir())
    assert watch_over(run) == run.read_state()
    view = view_run(run)
    assert (view.phase, view.host, view.silent_since, view.alert) == ("running", "gpu-7", None, None)
    assert sorted(path.name for path in run.path.iterdir()) == before
    lines = follow(run)
    assert next(lines) == "· run runs on gpu-7; this is its record"


def test_a_run_on_another_machine_takes_what_its_training_process_reads(tmp_path: Path) -> None:
    run = _elsewhere(tmp_path / "my run")
    with pytest.raises(KerneltuiError) as raised:
        ask_run(run, "kill")
    assert raised.value.title == "my run runs on gpu-7"
    assert f"kerneltui stop '{run.path}' --now" in raised.value.hint
    assert not run.request.exists()
    ask_run(run, "stop")
    assert b'"stop"' in run.request.read_bytes()


def test_a_run_that_is_not_heard_of_is_not_watched_for_ever(tmp_path: Path) -> None:
    run = _elsewhere(tmp_path / "run", updated=ago(4000))
    long_ago = time.time() - 3000
    os.utime(run.system, (long_ago, long_ago))
    *_, last = follow(run)
    assert last.startswith("✖ run: lost contact: nothing has been heard from gpu-7 since 20")
    view = view_run(run)
    assert view.silent_since is not None
    assert str(view.alert).startswith("lost contact: nothing has been heard from gpu-7 since 20")
    run.system.unlink()
    assert lost_since(run, run.read_state()) is not None
    set_state(run, phase="finished")
    assert lost_since(run, run.read_state()) is None


def test_a_run_of_this_machine_is_never_called_lost_for_its_silence(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", "", phase="running", updated=ago(4000))
    run.lock.touch()
    assert lost_since(run, run.read_state()) is None


def test_all_processes_are_looked_through_only_when_the_known_ones_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run", "")
    first, second = _marked(run), _marked(run)
    until(lambda: len(processes_of(run.path)) == 2)
    looks = 0
    real = psutil.process_iter

    def counted() -> Any:
        nonlocal looks
        looks += 1
        return real()

    monkeypatch.setattr("kerneltui.runs.processes.psutil.process_iter", counted)
    remembered = Remembered(run.path, 1)
    for _ in range(3):
        assert len(remembered.living()) == 2
    first.kill()
    first.wait()
    assert [process.pid for process in remembered.living()] == [second.pid]
    assert looks == 1
    second.send_signal(signal.SIGKILL)
    second.wait()
    assert remembered.living() == []
    assert looks == 2


@pytest.fixture
def of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunDirectory:
    """Return an unsupervised run of another person, which root looks at."""
    run = make_run(tmp_path / "run", COUNTING, phase="running", updated=ago(4000))
    make_record(run)
    run.lock.touch(0o600)
    if os.geteuid() == 0:
        os.chown(run.path, 65534, 65534)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(control, "start_supervisor", pytest.fail)
    return run


def test_root_does_not_take_over_the_run_of_another(of_another: RunDirectory) -> None:
    assert watch_over(of_another).phase == "running"
    alert = view_run(of_another).alert
    assert alert and alert.startswith("its supervisor is gone, it has written nothing since ")
    assert alert.endswith("its owner can take it up")
    with pytest.raises(KerneltuiError) as raised:
        ask_run(of_another, "kill")
    assert raised.value.title == "Nobody watches over run"
    assert raised.value.hint.endswith(f" kerneltui stop {of_another.path} --now")
    assert not of_another.request.exists()


def test_root_does_not_write_that_the_run_of_another_is_lost(of_another: RunDirectory) -> None:
    set_state(of_another, boot_id="another")
    before = (of_another.path / "state.json").read_bytes()
    assert watch_over(of_another).phase == "lost"
    assert (of_another.path / "state.json").read_bytes() == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_what_root_asks_of_the_run_of_another_is_that_persons(of_another: RunDirectory) -> None:
    ask_run(of_another, "stop")
    assert of_another.request.stat().st_uid == 65534
