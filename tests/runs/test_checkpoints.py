"""From which checkpoints training can go on, and why not from the others."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kerneltui.runs import checkpoint_files
from kerneltui.runs.checkpoint_files import faults_of
from kerneltui.runs.checkpoints import judge_checkpoints
from tests.runs.checkpoints import make_checkpoint, write_archive, write_safetensors
from tests.runs.fakes import ago, make_record, make_run


def _cut(name: str, size: int) -> Callable[[Path], object]:
    return lambda folder: os.truncate(folder / name, size)


def _remove(name: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).unlink()


def _write(name: str, text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text(text)


def _zeros(name: str) -> Callable[[Path], object]:
    """As a loss of power leaves a file whose content never reached the disk."""
    return lambda folder: (folder / name).write_bytes(bytes((folder / name).stat().st_size))


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (_write("checkpoint-is-incomplete.txt", ""), "it was being written when the process ended"),
        (_remove("trainer_state.json"), "trainer_state.json is missing: it was not written to its end"),
        (_write("trainer_state.json", '{"global_st'), "trainer_state.json cannot be read"),
        (_write("trainer_state.json", '{"global_step": 3}'), "trainer_state.json is of step 3, not of 40"),
        (_remove("model.safetensors"), "no weights of a model or of an adapter are in it"),
        (_cut("model.safetensors", 100), "model.safetensors has 100 bytes where its header tells of 140"),
        (_cut("model.safetensors", 4), "model.safetensors is cut off or empty"),
        (_zeros("model.safetensors"), "model.safetensors is cut off or empty"),
        (_write("model.safetensors", "\x0f\0\0\0\0\0\0\0no json at all, or"),
         "model.safetensors has a header that cannot be read"),
        (_cut("optimizer.pt", 4000), "optimizer.pt is cut off or damaged"),
        (_cut("optimizer.pt", 0), "optimizer.pt is cut off or damaged"),
        (_zeros("scheduler.pt"), "scheduler.pt is cut off or damaged"),
        (_remove("optimizer.pt"), "it has no state of the optimizer (save_only_model keeps the weights alone)"),
        (_remove("scheduler.pt"), "scheduler.pt is missing"),
        (_remove("rng_state.pth"), "the random state is missing (rng_state.pth)"),
        (_cut("rng_state.pth", 20), "rng_state.pth is cut off or damaged"),
    ],
)  # fmt: skip
def test_what_is_not_whole_is_passed_over(tmp_path: Path, damage: Callable[[Path], object], fault: str) -> None:
    folder = make_checkpoint(tmp_path, 40)
    assert faults_of(folder, 40, 1) == ()
    damage(folder)
    assert faults_of(folder, 40, 1) == (fault,)


def test_every_shard_of_the_index_is_looked_at(tmp_path: Path) -> None:
    folder = make_checkpoint(tmp_path, 40, shards=3)
    assert faults_of(folder, 40, 1) == ()
    (folder / "model-00001.safetensors").unlink()
    os.truncate(folder / "model-00002.safetensors", 90)
    assert faults_of(folder, 40, 1) == (
        "model-00001.safetensors is missing",
        "model-00002.safetensors has 90 bytes where its header tells of 140",
    )


def test_an_adapter_is_enough(tmp_path: Path) -> None:
    folder = make_checkpoint(tmp_path, 40)
    (folder / "model.safetensors").rename(folder / "adapter_model.safetensors")
    assert faults_of(folder, 40, 1) == ()


def test_the_ranks_must_be_those_that_saved(tmp_path: Path) -> None:
    folder = make_checkpoint(tmp_path, 40, ranks=4)
    assert faults_of(folder, 40, 4) == faults_of(folder, 40, None) == ()
    assert faults_of(folder, 40, 2) == ("it was saved by 4 processes, and this run has 2",)
    (folder / "rng_state_1.pth").unlink()
    assert faults_of(folder, 40, 4) == ("it was saved by 3 processes, and this run has 4",)
    write_archive(folder / "rng_state_7.pth")
    assert faults_of(folder, 40, 4) == ("the random states of 4 processes are not those of ranks 0 to 3",)


def test_sharded_states_of_fsdp_and_deepspeed_are_known(tmp_path: Path) -> None:
    fsdp = make_checkpoint(tmp_path / "fsdp", 40, ranks=2)
    (fsdp / "model.safetensors").unlink()
    (fsdp / "optimizer.pt").unlink()
    for name in ("pytorch_model_fsdp_0", "optimizer_0"):
        (fsdp / name).mkdir()
        (fsdp / name / ".metadata").touch()
    assert faults_of(fsdp, 40, 2) == ()
    (fsdp / "optimizer_0/.metadata").unlink()
    assert faults_of(fsdp, 40, 2) == ("optimizer_0/.metadata is missing: a part was not written",)

    zero = make_checkpoint(tmp_path / "zero", 40, ranks=2)
    (zero / "optimizer.pt").unlink()
    (zero / "latest").write_text("global_step40")
    assert faults_of(zero, 40, 2) == ("DeepSpeed's folder 'global_step40' is missing or empty",)
    (zero / "global_step40").mkdir()
    write_archive(zero / "global_step40/zero_pp_rank_0_mp_rank_00_optim_states.pt")
    assert faults_of(zero, 40, 2) == ()


def test_the_newest_good_one_is_taken_and_the_others_say_why_not(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", "")
    record = make_record(run)
    good, bad, newest = (make_checkpoint(Path(record.output_dir), step) for step in (9, 10, 100))
    os.truncate(newest / "optimizer.pt", 10)
    (bad / "trainer_state.json").unlink()
    (Path(record.output_dir) / "checkpoint-best").mkdir()
    judged = judge_checkpoints(run, record)
    assert [(found.path, found.step, bool(found.faults)) for found in judged] == [
        (newest, 100, True), (bad, 10, True), (good, 9, False)
    ]  # fmt: skip
    assert judged[-1].size == sum(path.stat().st_size for path in good.iterdir())


def test_what_lay_in_the_output_before_the_run_is_not_its_own(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", "")
    record = make_record(run, output_dir=str(tmp_path / "shared"), time=ago(60))
    old = make_checkpoint(tmp_path / "shared", 500)
    for path in (*old.iterdir(), old):
        os.utime(path, (1_790_000_000, 1_790_000_000))
    own = make_checkpoint(tmp_path / "shared", 40)
    judged = judge_checkpoints(run, record)
    assert [(found.path, found.faults) for found in judged] == [
        (old, ("it was there before this run was launched",)), (own, ())
    ]  # fmt: skip


def test_a_checkpoint_that_was_removed_is_no_candidate(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", "")
    record = make_record(run)
    gone, kept = make_checkpoint(tmp_path / "elsewhere", 80), make_checkpoint(tmp_path / "elsewhere", 40)
    run.events.write_text(
        "".join(json.dumps({"event": "checkpoint", "path": str(path)}) + "\n" for path in (gone, kept))
    )
    shutil.rmtree(gone)
    assert [found.path for found in judge_checkpoints(run, record)] == [kept]


def test_a_header_of_strange_shape_is_a_fault(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    write_safetensors(path)
    for header in (b'{"a": {"data_offsets": [0]}}', b'{"a": 7}', b'{"a": {"data_offsets": ["x", "y"]}}'):
        path.write_bytes(len(header).to_bytes(8, "little") + header)
        assert checkpoint_files._file_fault(path) == "model.safetensors has a header that cannot be read"


def test_the_installed_transformers_names_the_files_so() -> None:
    spec = importlib.util.find_spec("transformers")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    folder = Path(spec.submodule_search_locations[0])
    trainer, names = (folder / "trainer.py").read_text(), (folder / "utils/__init__.py").read_text()
    for name in (checkpoint_files.STATE, checkpoint_files.SCHEDULER, *checkpoint_files.OPTIMIZERS):
        assert f'"{name}"' in trainer
    assert "rng_state_{process_index}.pth" in trainer
    assert '"rng_state.pth"' in trainer
    for name in (*checkpoint_files.WEIGHTS, *checkpoint_files.INDICES):
        assert name.startswith("adapter") or f'"{name}"' in names
    assert checkpoint_files.UNFINISHED in (folder / "trainer_jit_checkpoint.py").read_text()
