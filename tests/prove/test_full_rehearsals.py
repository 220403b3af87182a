"""Rehearsals of every trainer of the `trl` command, and of SFT on models of many classes, with the real libraries."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from kerneltui import demo
from kerneltui.advice.situation import Situation
from kerneltui.assess import find_out
from kerneltui.facts.hub import Hub
from kerneltui.interpreter import Asker
from kerneltui.plan.plan import Launch, make_plan
from kerneltui.prove.rehearsal import rehearse
from tests.advice.situations import make_server
from tests.prove.models import CONFIGS, write_model
from tests.prove.pictures import write_pictures, write_seeing_model

PYTHON = Path(sys.executable)
LIMIT = 1200.0  # a loaded machine is no hanging trainer
# What a trainer needs beside model and data.
NEEDS: dict[str, dict[str, Any]] = {
    "sft": {"packing": True},
    "grpo": {"num_generations": 2, "max_completion_length": 8, "reward_funcs": ["think_format_reward"]},
    "rloo": {"num_generations": 2, "max_completion_length": 8, "reward_funcs": ["think_format_reward"]},
    "distillation": {"max_completion_length": 8},
}
# Classes with recurrent layers keep packed samples apart only with packages for GPUs.
NOT_PACKED = ("Qwen3NextForCausalLM", "Mamba2ForCausalLM")

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def asker() -> Iterator[Asker]:
    with Asker(PYTHON, environment={"LOCAL_KERNELS": demo.local_kernels(None)}) as process:
        yield process


def plan_on_the_cpu(asker: Asker, folder: Path, trainer: str, model: Path, *flags: str, **given: Any) -> Situation:
    """Return what is found out about a plan that trains a model on the demo's rows, on the CPU."""
    values = {
        "model_name_or_path": str(model),
        "datasets": [{"path": "json", "data_files": str(demo.data_path(trainer))}],
        "use_cpu": True, "bf16": False, "dataloader_pin_memory": False, "dtype": "float32",
        "per_device_train_batch_size": 2, "gradient_checkpointing": False, **given,
    }  # fmt: skip
    values = {name: value for name, value in values.items() if value is not ...}
    (folder / "config.yaml").write_text(yaml.safe_dump(values))
    launch = Launch(environment={"LOCAL_KERNELS": demo.local_kernels(None), "OMP_NUM_THREADS": "1"})
    plan = make_plan(trainer, ["config.yaml", *flags], cwd=folder, launch=launch)
    return find_out(plan, make_server(), asker, Hub(None, offline=True), data=False)


@pytest.mark.parametrize("trainer", ["sft", "dpo", "kto", "reward", "grpo", "rloo", "distillation"])
def test_every_trainer_is_rehearsed_with_a_kernel(trainer: str, asker: Asker, tmp_path: Path) -> None:
    model = write_model(tmp_path / "model", "Qwen3ForCausalLM")
    given = {"attn_implementation": demo.ATTENTION, **NEEDS.get(trainer, {})}
    if trainer == "distillation":
        given["teacher_model_name_or_path"] = str(write_model(tmp_path / "teacher", "LlamaForCausalLM"))
    if trainer == "grpo":
        given["reward_model_name_or_path"] = str(write_model(tmp_path / "reward", "LlamaForCausalLM"))
    made = rehearse(plan_on_the_cpu(asker, tmp_path, trainer, model, **given), PYTHON, asker, limit=LIMIT)
    assert made.passed, (made.ending, made.tail)
    assert made.attention == demo.ATTENTION
    assert [kernel["name"] for kernel in made.kernels] == ["demo-attention"]
    assert made.steps == len(made.losses) == (1 if "max_completion_length" in given else 2)
    assert made.model and made.model.startswith("Qwen3ForCausalLM, 2 layers")


@pytest.mark.parametrize("kind", [kind for kind in CONFIGS if kind != "Qwen3ForCausalLM"])
def test_sft_is_rehearsed_on_a_model_of_every_class(kind: str, asker: Asker, tmp_path: Path) -> None:
    model = write_model(tmp_path / "model", kind)
    packing = kind not in NOT_PACKED
    plan = plan_on_the_cpu(asker, tmp_path, "sft", model, packing=packing, max_length=64)
    made = rehearse(plan, PYTHON, asker, limit=LIMIT)
    assert made.passed, (made.ending, made.tail)
    eager = kind in ("Gemma2ForCausalLM", "GptOssForCausalLM", "Mamba2ForCausalLM")
    assert made.attention == ("eager" if eager else "sdpa")
    assert made.steps == 2


def test_two_ranks_stand_for_all_that_a_plan_starts(asker: Asker, tmp_path: Path) -> None:
    model = write_model(tmp_path / "model", "Qwen3ForCausalLM")
    plan = plan_on_the_cpu(asker, tmp_path, "sft", model, "--multi_gpu", "--num_processes", "4", max_length=64)
    assert plan.processes == 4
    made = rehearse(plan, PYTHON, asker, limit=LIMIT)
    assert made.passed, (made.ending, made.tail)
    assert (made.processes, made.planned) == (2, 4)
    assert {check.name: check.outcome for check in made.checks}["processes"] == "passed"
    assert made.untried == ("2 of 4 processes",)


def test_an_evaluation_is_rehearsed_too(asker: Asker, tmp_path: Path) -> None:
    """What TRL would meet at the first evaluation only, hours after the start."""
    model = write_model(tmp_path / "model", "LlamaForCausalLM")
    plan = plan_on_the_cpu(asker, tmp_path, "sft", model, eval_strategy="steps", eval_steps=500, test_split_size=0.25)
    made = rehearse(plan, PYTHON, asker, limit=LIMIT)
    assert made.passed, (made.ending, made.tail)
    without = plan_on_the_cpu(asker, tmp_path, "sft", model, eval_strategy="steps", eval_steps=500)
    refused = rehearse(without, PYTHON, asker, limit=LIMIT)
    assert refused.raised and (refused.raised.type, refused.raised.field) == ("KeyError", "dataset_test_split")


@pytest.mark.skipif(find_spec("PIL") is None, reason="pictures need pillow: pip install 'kerneltui[vision]'")
def test_a_model_that_sees_is_rehearsed_on_pictures(asker: Asker, tmp_path: Path) -> None:
    model, pictures = write_seeing_model(tmp_path / "model"), write_pictures(tmp_path / "pictures")
    plan = plan_on_the_cpu(asker, tmp_path, "sft", model, datasets=..., dataset_name=str(pictures), max_length=None)
    made = rehearse(plan, PYTHON, asker, limit=LIMIT)
    assert made.passed, (made.ending, made.tail)
    assert made.model and made.model.startswith("Gemma3ForConditionalGeneration, 2 layers of 2 kinds")
    assert made.steps == 2
