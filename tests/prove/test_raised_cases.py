"""Plans that the real trainers refuse on the CPU: the rehearsal finds each by itself, without any rule.

`blocked` tells whether a rule blocks the plan as well: then the rule is no false alarm.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kerneltui import demo
from kerneltui.advice.finding import is_blocked
from kerneltui.advice.rehearsed import findings_of
from kerneltui.advice.rules import judge
from kerneltui.interpreter import Asker
from kerneltui.prove.rehearsal import rehearse
from tests.prove.models import write_model
from tests.prove.test_full_rehearsals import LIMIT, PYTHON, plan_on_the_cpu

pytestmark = pytest.mark.full


class Case(NamedTuple):
    """A plan, what the trainer says of it, the field that this names, and whether a rule blocks it."""

    given: dict[str, Any]
    says: str
    field: str | None = None
    trainer: str = "sft"
    model: str = "LlamaForCausalLM"
    blocked: bool = True
    flags: tuple[str, ...] = ()


_GENERATES = {"num_generations": 2, "max_completion_length": 8, "reward_funcs": ["think_format_reward"]}
_PREFERENCES = [{"path": "json", "data_files": str(demo.data_path("dpo"))}]
_CONVERSATIONS = [{"path": "json", "data_files": str(demo.data_path("sft"))}]

CASES: dict[str, Case] = {
    "padding_free without packing": Case({"padding_free": True}, "max_length.* not enforced", "padding_free"),
    "packing without a length": Case({"packing": True, "max_length": None}, "max_length", "max_length"),
    "a strategy that is none": Case(
        {"packing": True, "packing_strategy": "bfdd"}, "packing_strategy|packing strategy|bfdd"
    ),
    "flex_attention on the CPU": Case({"attn_implementation": "flex_attention"}, "does not support backward on CPU"),
    "sdpa for a class without it": Case(
        {"attn_implementation": "sdpa"}, "scaled_dot_product_attention|sdpa", model="Gemma2ForCausalLM"
    ),
    "sdpa and sinks": Case(
        {"attn_implementation": "sdpa"}, "scaled_dot_product_attention|sdpa", model="GptOssForCausalLM"
    ),
    "flash for a class without it": Case(
        {"attn_implementation": "flash_attention_2"}, "does not support Flash Attention", model="Mamba2ForCausalLM"
    ),
    "attention of no such name": Case({"attn_implementation": "nonsense"}, "nonsense", "attn_implementation"),
    "bf16 without a GPU": Case({"use_cpu": ..., "bf16": ...}, "bf16/gpu", "use_cpu"),
    "two kinds of half": Case({"bf16": True, "fp16": True}, "fp16.*bf16|bf16.*fp16"),
    "a dtype of no such name": Case({"dtype": "float8"}, "dtype.*float8", blocked=False),
    "one sample a batch": Case(
        {"per_device_train_batch_size": 1}, "batch size", trainer="kto", blocked=False
    ),
    "groups that do not fit": Case(
        {**_GENERATES, "num_generations": 8}, "divisible by num_generations", "num_generations", trainer="grpo"
    ),
    "no reward": Case({"num_generations": 2, "max_completion_length": 8}, "reward", trainer="grpo"),
    "no teacher": Case({"max_completion_length": 8}, "teacher", trainer="distillation"),
    "no data": Case({"datasets": ...}, "dataset_name.* must be provided", "datasets"),
    "other columns than are read": Case({"datasets": _CONVERSATIONS}, "KeyError|chosen", trainer="dpo", blocked=False),
    "a field that nobody has": Case({"learning_rat": 0.1}, "unrecognized arguments.*learning_rat"),
    "packed recurrent layers": Case(
        {"packing": True, "max_length": 64}, "can't keep packed sequences apart", model="Qwen3NextForCausalLM",
        blocked=False,
    ),
    "an adapter on the head": Case(
        {"use_peft": True, "lora_target_modules": ["lm_head"]}, "lm_head", blocked=False
    ),
    "a loss without its smoothing": Case({"loss_type": ["exo_pair"]}, "Label smoothing", "label_smoothing",
        trainer="dpo", blocked=False),
    "a reference that moves and is kept": Case(
        {"sync_ref_model": True, "precompute_ref_log_probs": True}, "precompute_ref_log_probs", trainer="dpo",
        blocked=False,
    ),
    "Liger's loss on a reward model": Case({"use_liger_kernel": True}, "lm_head|active drivers", trainer="reward"),
    "Liger without a GPU": Case({"use_liger_kernel": True}, "active drivers", blocked=False),
}  # fmt: skip


@pytest.fixture(scope="module")
def asker() -> Iterator[Asker]:
    with Asker(PYTHON) as process:
        yield process


@pytest.mark.parametrize("name", CASES)
def test_the_rehearsal_alone_finds_what_the_trainer_refuses(name: str, asker: Asker, tmp_path: Path) -> None:
    case = CASES[name]
    model = write_model(tmp_path / "model", case.model)
    plan = plan_on_the_cpu(asker, tmp_path, case.trainer, model, *case.flags, **case.given)
    assert is_blocked(judge(plan)) or not case.blocked
    made = rehearse(plan, PYTHON, asker, limit=LIMIT)
    assert not made.passed
    (finding,) = findings_of(plan, made)
    assert (finding.severity, finding.origin) == ("block", "observed")
    assert re.search(case.says, finding.why, re.DOTALL), finding.why
    if case.field:
        assert made.raised and made.raised.field == case.field
