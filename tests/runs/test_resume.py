"""Going on with a run: which may, from where, and as what. Training is a few lines of Python."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from kerneltui.errors import KerneltuiError
from kerneltui.interpreter import WORKER
from kerneltui.runs import resume as module
from kerneltui.runs import start
from kerneltui.runs.control import ask_run
from kerneltui.runs.directory import ACTIVE, Command, RunDirectory, read_lines
from kerneltui.runs.lock import holding
from kerneltui.runs.processes import ATTEMPT, MARK, processes_of
from kerneltui.runs.resume import next_command, plan_resumption, resume
from tests.runs.checkpoints import make_checkpoint
from tests.runs.fakes import make_record, make_run, set_state
from tests.waiting import until

SAYS = """
import pathlib, sys
pathlib.Path("said" + os.environ["KERNELTUI_ATTEMPT"]).write_text(" ".join(sys.argv[1:]))
"""


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    """Return a run that has failed and has a checkpoint of step 40."""
    made = make_run(tmp_path / "runs" / "run", SAYS, phase="failed", reason="ValueError: x")
    make_checkpoint(Path(make_record(made).output_dir), 40)
    return made


def test_the_next_attempt_starts_from_the_checkpoint(run: RunDirectory) -> None:
    (run.attempt(1) / "config.yaml").write_text("max_steps: 9\n")
    run.request.write_text('{"action": "stop", "time": ""}')
    found = plan_resumption(run)
    assert (found.attempt, found.checkpoint.step, found.passed_over) == (2, 40, ())
    resume(found, ("--learning_rate", "1e-5"))
    until(lambda: run.read_state().phase not in ACTIVE)
    assert (run.read_state().attempt, run.read_state().exit_code) == (2, 0)
    said = (run.path / "said2").read_text()
    assert said == f"--learning_rate 1e-5 --resume_from_checkpoint {found.checkpoint.path}"
    assert (run.attempt(2) / "config.yaml").read_text() == "max_steps: 9\n"
    assert [event["attempt"] for event in read_lines(run.events) if event["event"] == "run_begin"] == [2]
    assert not run.request.exists()


def test_what_was_passed_over_is_told(run: RunDirectory) -> None:
    broken = make_checkpoint(run.path / "output", 50)
    (broken / "trainer_state.json").unlink()
    first, second = plan_resumption(run).words
    assert first.startswith("from the checkpoint of step 40 (0.0 MB): ")
    assert second == "passed over checkpoint-50: trainer_state.json is missing: it was not written to its end"


def _active(run: RunDirectory) -> None:
    set_state(run, phase="starting")


def _finished(run: RunDirectory) -> None:
    set_state(run, phase="finished")


def _elsewhere(run: RunDirectory) -> None:
    set_state(run, phase="running", hostname="gpu-7")
    run.system.touch()


def _damaged(run: RunDirectory) -> None:
    (run.path / "output/checkpoint-40/scheduler.pt").unlink()


def _removed(run: RunDirectory) -> None:
    (run.path / "output/checkpoint-40").rename(run.path / "output/other")


@pytest.mark.parametrize(
    ("prepare", "title", "message"),
    [
        (_active, "run is starting", "It has not ended."),
        (_elsewhere, "run is running", "It has not ended."),
        (_finished, "run is finished", "It came to its last step, and its model is saved."),
        (_damaged, "run has no checkpoint to go on from", "passed over checkpoint-40: scheduler.pt is missing"),
        (_removed, "run has no checkpoint to go on from", "None was written in "),
    ],
)
def test_runs_that_cannot_go_on_say_why(
    run: RunDirectory, prepare: Callable[[RunDirectory], None], title: str, message: str
) -> None:
    prepare(run)
    with pytest.raises(KerneltuiError) as raised:
        plan_resumption(run)
    assert raised.value.title == title
    assert raised.value.message.startswith(message)
    assert raised.value.hint


def test_a_run_of_a_machine_that_is_gone_goes_on_here_when_the_person_says_so(run: RunDirectory) -> None:
    _elsewhere(run)
    os.utime(run.system, (1_790_000_000, 1_790_000_000))
    with pytest.raises(KerneltuiError) as raised:
        plan_resumption(run)
    assert raised.value.hint == f"If gpu-7 is gone for good: kerneltui resume {run.path} --gone"
    assert plan_resumption(run, gone=True).attempt == 2


def test_there_must_be_room_for_the_next_checkpoint(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    class Usage(NamedTuple):
        free: int = 100

    monkeypatch.setattr("kerneltui.runs.resume.shutil.disk_usage", lambda _: Usage())
    with pytest.raises(KerneltuiError, match="There is no room for the next checkpoint"):
        plan_resumption(run)


def test_what_an_attempt_has_left_running_is_ended_first(run: RunDirectory) -> None:
    left = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"],
        env={**os.environ, MARK: str(run.path), ATTEMPT: "1"}, start_new_session=True,
    )  # fmt: skip
    until(lambda: processes_of(run.path))
    with pytest.raises(KerneltuiError) as raised:
        plan_resumption(run)
    assert raised.value.message == f"They may hold the GPUs: {left.pid}."
    ask_run(run, "kill")
    left.wait()
    assert plan_resumption(run).attempt == 2


def test_two_cannot_go_on_with_one_run(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    found = plan_resumption(run)
    set_state(run, attempt=2)
    with pytest.raises(KerneltuiError, match="run goes on already"):
        resume(found)
    monkeypatch.setattr(module, "_PATIENCE", 0.1)
    with holding(run.lock), pytest.raises(KerneltuiError, match="is looked after"):
        resume(found)


def test_a_start_that_fails_leaves_the_record_as_it_was(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    before = run.read_state()
    monkeypatch.setattr(start, "start_supervisor", refuse)
    with pytest.raises(KerneltuiError, match="Cannot start run"):
        resume(plan_resumption(run))
    assert run.read_state() == before
    assert not run.attempt(2).exists()


def _launched(run: RunDirectory, *words: str, **environment: str) -> None:
    """Write the command of a first attempt as `launch` writes it."""
    config = str(run.attempt(1) / "config.yaml")
    argv = ("/opt/python", "/old/worker/run.py", "launch", "--num_processes", "2", "/old/worker/run.py", "train", "sft",
            "--config", config, *words)  # fmt: skip
    command = Command(argv=argv, cwd="/work", environment={MARK: str(run.path), ATTEMPT: "1", **environment})
    run.write("attempts/1/command.json", command)


def test_the_command_is_that_of_the_attempt_before(run: RunDirectory) -> None:
    _launched(run, "--packing", "--learning_rate", "1e-4", "--resume_from_checkpoint", "/old/checkpoint-3")
    command = next_command(run, 2, Path("/new"), ("--learning_rate=1e-5", "--num_processes", "9"))
    config = str(run.attempt(2) / "config.yaml")
    assert command.argv == (
        "/opt/python", str(WORKER), "launch", "--num_processes", "2", str(WORKER), "train", "sft", "--config", config,
        "--packing", "--learning_rate=1e-5", "--num_processes", "9", "--resume_from_checkpoint", "/new",
    )  # fmt: skip
    assert (command.cwd, command.environment) == ("/work", {MARK: str(run.path), ATTEMPT: "2"})


def test_hidden_secrets_come_from_the_configuration_the_flags_and_the_shell(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    _launched(run, "--hub_token", "<hidden>", WANDB_API_KEY="<hidden>", COMET_API_KEY="<hidden>")
    (run.attempt(1) / "config.yaml").write_text("env: {WANDB_API_KEY: from-the-file}\n")
    monkeypatch.setenv("COMET_API_KEY", "from-the-shell")
    with pytest.raises(KerneltuiError) as raised:
        next_command(run, 2, Path("/new"))
    assert "--hub_token was known only to the supervisor that is gone" in raised.value.message
    command = next_command(run, 2, Path("/new"), ("--hub_token", "anew"))
    assert command.argv[-4:] == ("--hub_token", "anew", "--resume_from_checkpoint", "/new")
    assert command.environment["WANDB_API_KEY"] == "from-the-file"
    assert command.environment["COMET_API_KEY"] == "from-the-shell"


def test_a_run_that_was_moved_is_its_new_place(run: RunDirectory, tmp_path: Path) -> None:
    _launched(run)
    moved = RunDirectory(run.path.rename(tmp_path / "moved"))
    command = next_command(moved, 2, Path("/new"))
    assert str(moved.attempt(2) / "config.yaml") in command.argv
    assert command.environment[MARK] == str(moved.path)
    assert msgspec.structs.replace(command, argv=()).cwd == "/work"
