"""Measuring the memory of a step: how its process ends, what stands against it, and the program itself on the CPU."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kerneltui.advice.situation import Situation
from kerneltui.errors import KerneltuiError
from kerneltui.facts.proof import MeasuredMemory, Proof
from kerneltui.interpreter import worker_command
from kerneltui.prove import memory as measuring
from kerneltui.prove.memory import Measuring, why_not
from kerneltui.show_proof import proof_lines
from tests.advice.situations import H200, make_server, make_situation
from tests.prove.models import write_model

_GIB = 1 << 30
_REPORT = {"peaks": {"allocated": 15 * _GIB, "reserved": 16 * _GIB}}


@pytest.fixture(autouse=True)
def _room_on_the_card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "no_room", lambda situation, need: None)


def on_a_gpu(cwd: Path, **facts: Any) -> Situation:
    situation = make_situation(server=make_server(H200), **facts)
    return msgspec.structs.replace(situation, plan=msgspec.structs.replace(situation.plan, cwd=str(cwd)))


def interpreter(folder: Path, script: str) -> Path:
    """Return a program in place of Python; its third argument is the file of the report."""
    path = folder / "python"
    path.write_text(f'#!/bin/sh\nreport="$3"\n{script}\n')
    path.chmod(0o755)
    return path


def measure(folder: Path, script: str, *, limit: float = 60) -> MeasuredMemory:
    return Measuring(on_a_gpu(folder), interpreter(folder, script), limit=limit).run()


def test_the_peaks_of_the_allocator_are_the_measurement(tmp_path: Path) -> None:
    made = measure(tmp_path, f"echo '{json.dumps(_REPORT)}' > \"$report\"")
    assert made.passed
    assert (made.peak, made.reserved, made.device) == (15 * _GIB, 16 * _GIB, "NVIDIA H200")
    assert "15 GiB allocated" in "\n".join(proof_lines(Proof(time=made.time, memory=made)))


@pytest.mark.parametrize(
    ("script", "ended", "ending"),
    [
        ("kill -SEGV $$", "crashed", "signal 11"),
        ("echo no such thing; exit 3", "exited", "exit code 3"),
        (
            """echo '{"error": {"type": "OutOfMemoryError", "message": "CUDA out of memory."}}' > "$report"; exit 1""",
            "out_of_memory",
            "OutOfMemoryError: CUDA out of memory.",
        ),
        (
            """echo '{"error": {"type": "ValueError", "message": "bad"}}' > "$report"; exit 1""",
            "raised",
            "ValueError: bad",
        ),
        ("exit 0", "exited", "exit code 0"),
    ],
)
def test_how_it_ended_is_told_apart(tmp_path: Path, script: str, ended: str, ending: str) -> None:
    made = measure(tmp_path, script)
    assert (made.ended, made.ending) == (ended, ending)
    assert not made.passed
    assert made.peak is None
    assert proof_lines(Proof(time=made.time, memory=made))[0].startswith("✖")


def test_a_step_that_hangs_is_ended(tmp_path: Path) -> None:
    assert measure(tmp_path, "exec sleep 600", limit=0.3).ended == "hung"


def test_it_can_be_cancelled(tmp_path: Path) -> None:
    measuring = Measuring(on_a_gpu(tmp_path), interpreter(tmp_path, "exec sleep 600"))
    with pytest.raises(KerneltuiError, match="ended"):
        measuring.run(lambda text: measuring.cancel())


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"given": {"use_cpu": True}}, "CPU"),
        ({"elsewhere": True}, "another machine"),
        ({"given": {"use_vllm": True}}, "vLLM"),
        ({"accelerate": {"use_fsdp": True}, "processes": 4}, "several GPUs"),
    ],
)
def test_what_cannot_be_measured_says_why(tmp_path: Path, facts: dict[str, Any], words: str) -> None:
    situation = on_a_gpu(tmp_path, **facts)
    assert words in str(why_not(situation))
    with pytest.raises(KerneltuiError, match="cannot be measured"):
        Measuring(situation, Path(sys.executable)).run()


@pytest.mark.full
@pytest.mark.parametrize("trainer", ["sft", "dpo", "kto", "reward", "grpo", "rloo", "distillation"])
def test_the_program_makes_steps_at_full_shape_with_random_weights(tmp_path: Path, trainer: str) -> None:
    import subprocess

    model = write_model(tmp_path / "model", "Qwen3ForCausalLM")
    for weights in (tmp_path / "model").glob("*.safetensors"):
        weights.unlink()
    flags = {"model_name_or_path": model, "dataset_name": "is/never-read", "per_device_train_batch_size": 2}
    flags |= {"use_cpu": True, "bf16": False, "output_dir": tmp_path / "output"}
    if trainer in ("grpo", "rloo", "distillation"):
        flags |= {"max_completion_length": 8}
        flags |= {"teacher_model_name_or_path": model} if trainer == "distillation" else {"num_generations": 2}
    else:
        flags |= {"max_length": 64}
    words = [word for name, value in flags.items() for word in (f"--{name}", str(value))]
    out = tmp_path / "memory.json"
    subprocess.run(worker_command(Path(sys.executable), "measure", str(out), trainer, *words), check=True, cwd=tmp_path)
    report = json.loads(out.read_text())
    assert "error" not in report
    assert report["peaks"] == {"allocated": None, "reserved": None}  # there is no GPU to ask
    assert report["optimizer_bytes"] > 2 * report["trained_bytes"] > 0
    assert not (tmp_path / "output" / "model.safetensors").exists()
