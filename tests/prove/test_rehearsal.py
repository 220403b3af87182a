"""A rehearsal on the CPU: the real TRL, one small model, the demo's rows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kerneltui.errors import KerneltuiError
from kerneltui.facts.proof import Rehearsal
from kerneltui.interpreter import Asker, worker_command
from kerneltui.prove.rehearsal import _BOUND, Rehearsing, rehearse
from kerneltui.records import from_json, to_json
from kerneltui.runs.processes import MARK, end_processes, processes_of
from tests.prove.models import write_model
from tests.prove.rehearsing import on_the_cpu
from tests.waiting import until

PYTHON = Path(sys.executable)


def test_a_plan_is_rehearsed_on_a_small_model_of_its_class(tmp_path: Path) -> None:
    model = write_model(tmp_path / "gemma", "Gemma3ForCausalLM")
    plan = on_the_cpu(
        cwd=tmp_path, model_name_or_path=str(model), dtype="float32", packing=True, max_length=128,
        attn_implementation="sdpa", gradient_checkpointing=False,
    )  # fmt: skip
    told: list[str] = []
    with Asker(PYTHON) as asker:
        made = rehearse(plan, PYTHON, asker, on_progress=told.append)
    assert made.passed, (made.ending, made.tail)
    assert made.model == "Gemma3ForCausalLM, 2 layers of 2 kinds, 0.4 M random weights"
    assert (made.steps, made.attention, made.device, made.processes) == (2, "sdpa", "cpu", 1)
    assert len(made.losses) == len(made.gradient_norms) == 2
    assert None not in (*made.losses, *made.gradient_norms)
    assert {check.name: check.outcome for check in made.checks} == dict.fromkeys(
        ("loss", "gradients", "attention"), "passed"
    )
    assert told[:3] == [f"making a small {model}", "taking the first rows of the data", "starting the trainer"]
    assert "building the trainer" in told
    assert from_json(to_json(made), Rehearsal, "the rehearsal") == made
    # Nothing is left in the plan's directory.
    assert [path.name for path in tmp_path.iterdir()] == ["gemma"]


def test_a_rehearsal_that_was_cancelled_makes_nothing(tmp_path: Path) -> None:
    asker = Asker(PYTHON)
    rehearsing = Rehearsing(on_the_cpu(cwd=tmp_path), PYTHON, asker)
    told: list[str] = []

    def cancel_at_once(text: str) -> None:
        told.append(text)
        rehearsing.cancel()

    with pytest.raises(KerneltuiError, match="cancelled"):
        rehearsing.run(cancel_at_once)
    assert len(told) == 1


@pytest.mark.full
def test_what_starts_training_ends_with_the_one_that_holds_its_input(tmp_path: Path) -> None:
    """Without that a rehearsal would outlive a front end that is killed."""
    script = tmp_path / "endless.py"
    script.write_text("import pathlib, time\npathlib.Path('begun').touch()\nwhile True:\n    time.sleep(0.1)\n")
    started = subprocess.Popen(
        worker_command(PYTHON, "launch", "--num_processes", "1", str(script)),
        cwd=tmp_path, env={**os.environ, _BOUND: "1", MARK: str(tmp_path)}, stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        until((tmp_path / "begun").exists, limit=120)
        assert started.stdin
        started.stdin.close()
        assert started.wait(60) != 0
        until(lambda: not processes_of(tmp_path))
    finally:
        end_processes(tmp_path)
