from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

import msgspec
import pytest

from kerneltui.assess import assess
from kerneltui.errors import KerneltuiError, UsageError
from kerneltui.plan.plan import Launch
from kerneltui.runs.directory import RunDirectory
from kerneltui.runs.launch import launch, training_command
from kerneltui.runs.names import new_name
from kerneltui.runs.places import known_places, remember
from tests.advice.situations import make_build, make_situation

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
