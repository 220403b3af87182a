from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kerneltui.assess import assess
from kerneltui.errors import KerneltuiError, UsageError
from kerneltui.facts.proof import Proof
from kerneltui.facts.server import Gpu, MigInstance
from kerneltui.plan.plan import Launch
from kerneltui.records import read_record
from kerneltui.runs import start as module
from kerneltui.runs.directory import ACTIVE, Command, RunDirectory
from kerneltui.runs.launch import launch, training_command
from kerneltui.runs.names import new_name
from kerneltui.runs.places import known_places, remember
from kerneltui.runs.processes import processes_of
from kerneltui.runs.supervisor import start_supervisor
from tests.advice.situations import make_build, make_situation
from tests.facts.test_proof import PREFLIGHT
from tests.runs.fakes import ago, set_state
from tests.waiting import until

PYTHON = Path(sys.executable)
FINE = make_situation(given={"attn_implementation": "sdpa"})
BLOCKED = make_situation(
    given={"attn_implementation": "kernels-community/flash-attn2@v1"},
    build=make_build("v1", None, refused={"torch212-cxx11-cu130-x86_64-linux": "Torch version (2.12) does not match"}),
)


def _named(name: str) -> Launch:
    return Launch(name=name)


def test_what_blocks_is_not_launched(tmp_path: Path) -> None:
    with pytest.raises(KerneltuiError) as raised:
        launch(BLOCKED, assess(BLOCKED), tmp_path / "runs", PYTHON)
    assert raised.value.title == "Not launched: something blocks"
    assert raised.value.message.startswith("✖ ")
    assert not (tmp_path / "runs").exists()


def test_a_proof_that_failed_is_not_launched_and_is_kept_where_the_person_insists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kerneltui.runs.launch.begin_attempt", lambda run, command: None)
    proof = Proof(time="t", preflight=msgspec.structs.replace(PREFLIGHT, ended="crashed", ending="signal 11"))
    with pytest.raises(KerneltuiError, match="Not launched: its proof failed"):
        launch(FINE, assess(FINE), tmp_path / "runs", PYTHON, proof=proof)
    assert not (tmp_path / "runs").exists()
    run = launch(FINE, assess(FINE), tmp_path / "runs", PYTHON, proof=proof, forced=True)
    assert read_record(run.path / "proof.json", Proof) == proof
    assert run.read_run().forced


def test_a_launch_without_a_proof_says_why_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kerneltui.runs.launch.begin_attempt", lambda run, command: None)
    run = launch(FINE, assess(FINE), tmp_path / "runs", PYTHON)
    proof = read_record(run.path / "proof.json", Proof)
    assert proof.unmade == dict.fromkeys(("preflight", "rehearsal", "memory"), "no proof was asked for")


def test_a_name_that_is_taken_is_told_and_nothing_is_touched(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    plan = msgspec.structs.replace(FINE.plan, launch=_named("mine"))
    situation = msgspec.structs.replace(FINE, plan=plan)
    with pytest.raises(UsageError) as raised:
        launch(situation, assess(situation), tmp_path, PYTHON)
    assert str(raised.value) == f"There is already a run 'mine' in {tmp_path}\nGive another name with --name."
    assert list((tmp_path / "mine").iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_directory_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(KerneltuiError, match="Cannot make a run directory"):
        launch(FINE, assess(FINE), tmp_path / "runs", PYTHON)


def test_runs_cannot_be_kept_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("")
    with pytest.raises(KerneltuiError) as raised:
        launch(FINE, assess(FINE), tmp_path / "runs", PYTHON)
    assert str(raised.value) == (
        f"Cannot make a run directory in {tmp_path}/runs\nFile exists\n"
        "Check permissions and free space, or choose another directory with --runs-dir."
    )


def test_a_full_disk_is_told_and_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("kerneltui.paths.os.fsync", full)
    with pytest.raises(KerneltuiError) as raised:
        launch(FINE, assess(FINE), tmp_path, PYTHON)
    assert raised.value.title.startswith("Cannot write ")
    assert raised.value.message == "No space left on device"
    assert list(tmp_path.iterdir()) == []


def test_the_command_trains_as_trl_would_and_says_where_the_record_is(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    settings = msgspec.structs.replace(
        FINE.settings, launch_arguments=("--num_processes", "2"), script_flags=("--packing",)
    )
    plan = msgspec.structs.replace(FINE.plan, launch=Launch(gpus=(1, 3), environment={"A": "b"}))
    command = training_command(run, 2, msgspec.structs.replace(FINE, settings=settings, plan=plan), Path("/opt/python"))
    config = str(run.attempt(2) / "config.yaml")
    assert command.argv[0] == "/opt/python"
    assert command.argv[2:5] == ("launch", "--num_processes", "2")
    assert command.argv[6:] == ("train", "sft", "--config", config, "--packing", "--output_dir", f"{run.path}/output")
    assert command.cwd == "/work"
    assert {
        "KERNELTUI_RUN": str(run.path), "KERNELTUI_ATTEMPT": "2", "A": "b",
        "CUDA_VISIBLE_DEVICES": "1,3", "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }.items() <= command.environment.items()  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "added"),
    [
        ({"processes": 2}, ("--main_process_port", "0")),
        ({"processes": 1}, ()),
        ({"processes": 2, "accelerate": {"main_process_port": 29501}}, ()),
        ({"processes": 16, "machines": 2}, ()),
    ],
)
def test_processes_of_one_machine_meet_at_a_free_port(
    tmp_path: Path, changes: dict[str, Any], added: tuple[str, ...]
) -> None:
    settings = msgspec.structs.replace(FINE.settings, launch_arguments=("--multi_gpu",), **changes)
    situation = msgspec.structs.replace(FINE, settings=settings)
    command = training_command(RunDirectory(tmp_path), 1, situation, Path("/opt/python"))
    assert command.argv[2 : 4 + len(added)] == ("launch", *added, "--multi_gpu")


def test_the_environment_of_the_file_is_there_before_anything_is_imported(tmp_path: Path) -> None:
    config = "env: {HF_HUB_OFFLINE: 1, CUDA_VISIBLE_DEVICES: '1', A: file, B: file}"
    plan = msgspec.structs.replace(FINE.plan, config=config, launch=Launch(environment={"B": "launch"}))
    command = training_command(RunDirectory(tmp_path), 1, msgspec.structs.replace(FINE, plan=plan), Path("/opt/python"))
    expected = {"HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": "1", "A": "file", "B": "launch"}
    assert expected.items() <= command.environment.items()


def test_gpus_are_counted_as_in_the_report_whatever_the_shell_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST")
    command = training_command(RunDirectory(tmp_path), 1, FINE, Path("/opt/python"))
    assert command.environment["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert "CUDA_VISIBLE_DEVICES" not in command.environment


def test_with_divided_cards_gpus_are_named_by_uuid(tmp_path: Path) -> None:
    """CUDA numbers them otherwise than the report."""
    instance = MigInstance(uuid="MIG-1", gpu_instance=1, compute_instance=0)
    gpus = (
        Gpu(index=0, uuid="GPU-a", mig=True, mig_instances=(instance,)),
        Gpu(index=1, uuid="GPU-b", mig=False, mig_instances=()),
    )
    server = msgspec.structs.replace(FINE.server, gpus=gpus)
    plan = msgspec.structs.replace(FINE.plan, launch=Launch(gpus=(1, 0)))
    situation = msgspec.structs.replace(FINE, server=server, plan=plan)
    command = training_command(RunDirectory(tmp_path), 1, situation, Path("/opt/python"))
    assert command.environment["CUDA_VISIBLE_DEVICES"] == "GPU-b,MIG-1"


def test_an_output_directory_of_the_person_stays(tmp_path: Path) -> None:
    settings = msgspec.structs.replace(
        FINE.settings, given=("output_dir",), values={**FINE.settings.values, "output_dir": "mine"}
    )
    command = training_command(
        RunDirectory(tmp_path), 1, msgspec.structs.replace(FINE, settings=settings), Path("/opt/python")
    )
    assert "--output_dir" not in command.argv


def test_places_are_remembered_the_last_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    assert known_places() == []
    for place in (one, two, one):
        remember(place)
    assert known_places() == [one, two]
    two.rmdir()
    assert known_places() == [one]


def test_a_state_directory_that_cannot_be_written_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "state").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    remember(tmp_path)
    assert known_places() == []


def test_names_need_no_quotes() -> None:
    assert all(name.replace("-", "").isalpha() for name in (new_name() for _ in range(50)))


def _supervisor(program: str) -> Callable[[RunDirectory], subprocess.Popen[bytes]]:
    """Return what stands in for `start_supervisor`: it runs `program`, which finds the run's directory in RUN."""

    def start(run: RunDirectory, *_: object) -> subprocess.Popen[bytes]:
        with (run.path / "supervisor.log").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-c", program], env={**os.environ, "RUN": str(run.path)}, stderr=log
            )

    return start


TRAINING = """
import os, subprocess, sys
environment = {**os.environ, "KERNELTUI_RUN": os.environ["RUN"], "KERNELTUI_ATTEMPT": "1"}
training = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], env=environment)
"""


def test_a_supervisor_that_ends_at_once_is_told_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[RunDirectory] = []
    start = _supervisor(TRAINING + "raise ImportError('no module named kerneltui')")

    def remembering(run: RunDirectory, *_: object) -> subprocess.Popen[bytes]:
        started.append(run)
        return start(run)

    monkeypatch.setattr(module, "start_supervisor", remembering)
    with pytest.raises(KerneltuiError) as raised:
        launch(FINE, assess(FINE), tmp_path / "runs", PYTHON)
    assert raised.value.title == f"{started[0].name} was not started: its supervisor ended at once"
    assert raised.value.message == "ImportError: no module named kerneltui"
    assert list((tmp_path / "runs").iterdir()) == []
    assert processes_of(started[0].path) == []


def test_a_supervisor_that_does_not_answer_is_told_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_START_LIMIT", 0.2)
    monkeypatch.setattr(module, "start_supervisor", _supervisor("import time; time.sleep(600)"))
    with pytest.raises(KerneltuiError) as raised:
        launch(FINE, assess(FINE), tmp_path / "runs", PYTHON)
    assert raised.value.title.endswith("was not started: its supervisor did not answer")
    assert raised.value.message == "It said nothing."
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_launch_that_is_broken_off_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "start_supervisor", _supervisor("import time; time.sleep(600)"))
    monkeypatch.setattr(module, "_await_start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        launch(FINE, assess(FINE), tmp_path / "runs", PYTHON)
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_supervisor_that_cannot_be_started_is_told_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(run: RunDirectory, *_: object) -> None:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(module, "start_supervisor", refuse)
    with pytest.raises(KerneltuiError) as raised:
        launch(FINE, assess(FINE), tmp_path / "runs", PYTHON)
    assert raised.value.message == "Resource temporarily unavailable"
    assert list((tmp_path / "runs").iterdir()) == []


def test_another_supervisor_may_have_taken_the_run_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # As when a list of runs is made while the first one is slow: the second holds the lock, the first ends.
    def both(run: RunDirectory, *_: object) -> subprocess.Popen[bytes]:
        command = Command(argv=(sys.executable, "-c", ""), cwd=str(run.path), environment={})
        run.write("attempts/1/command.json", command)
        others.append(start_supervisor(run))
        until(lambda: run.read_state().phase != "starting")
        set_state(run, phase="finished")
        return subprocess.Popen([sys.executable, "-c", ""])

    others: list[subprocess.Popen[bytes]] = []
    monkeypatch.setattr(module, "start_supervisor", both)
    run = launch(FINE, assess(FINE), tmp_path / "runs", PYTHON)
    until(lambda: run.read_state().phase not in ACTIVE)
    others[0].wait(timeout=60)


def test_a_run_is_its_owners_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def took_over(run: RunDirectory, *_: object) -> subprocess.Popen[bytes]:
        set_state(run, phase="running", updated=ago(0))
        return subprocess.Popen([sys.executable, "-c", ""])

    monkeypatch.setattr(module, "start_supervisor", took_over)
    old = os.umask(0)
    try:
        run = launch(FINE, assess(FINE), tmp_path / "runs", PYTHON)
    finally:
        os.umask(old)
    for path in (run.path, run.attempt(1).parent, run.attempt(1)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700, path
