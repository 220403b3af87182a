"""Fields that do nothing with the present choices."""

from __future__ import annotations

from typing import Any

import pytest

from kerneltui.interpreter import Asker
from kerneltui.plan.effects import without_effect
from kerneltui.plan.fields import Field, read_fields

# Trainer, field, what else is set, and whether the field counts then.
CASES: list[tuple[str, str, dict[str, Any], bool]] = [
    ("sft", "packing_strategy", {}, False),
    ("sft", "packing_strategy", {"packing": True}, True),
    ("sft", "lora_r", {}, False),
    ("sft", "lora_r", {"use_peft": True}, True),
    ("sft", "num_train_epochs", {}, True),
    ("sft", "num_train_epochs", {"max_steps": 10}, False),
    ("sft", "eval_steps", {"eval_strategy": "epoch"}, False),
    ("sft", "eval_steps", {"eval_strategy": "steps"}, True),
    ("sft", "per_device_eval_batch_size", {"eval_strategy": "epoch"}, True),
    ("sft", "run_name", {"report_to": ["none"]}, False),
    ("sft", "project", {"report_to": ["wandb"]}, False),
    ("sft", "project", {"report_to": ["wandb", "trackio"]}, True),
    ("sft", "dataset_name", {"datasets": [{"path": "json"}]}, False),
    ("sft", "dataset_text_field", {"datasets": [{"path": "json"}]}, True),
    ("sft", "learning_rate", {}, True),
    ("dpo", "f_alpha_divergence_coef", {}, False),
    ("dpo", "f_alpha_divergence_coef", {"f_divergence_type": "alpha_divergence"}, True),
    ("dpo", "discopop_tau", {"loss_type": ["sigmoid", "discopop"]}, True),
    ("dpo", "ref_model_sync_steps", {}, False),
    ("grpo", "vespo_k_pos", {}, False),
    ("grpo", "vespo_k_pos", {"loss_type": "vespo"}, True),
    ("grpo", "sync_ref_model", {}, False),
    ("grpo", "sync_ref_model", {"beta": 0.1}, True),
    ("grpo", "vllm_gpu_memory_utilization", {"use_vllm": True}, True),
    ("grpo", "vllm_gpu_memory_utilization", {"use_vllm": True, "vllm_mode": "server"}, False),
    ("grpo", "vllm_server_host", {"use_vllm": True, "vllm_mode": "server"}, True),
    (
        "grpo",
        "vllm_server_host",
        {"use_vllm": True, "vllm_mode": "server", "vllm_server_base_url": "http://a:1"},
        False,
    ),
    ("cpo", "simpo_gamma", {}, False),
    ("cpo", "simpo_gamma", {"loss_type": "simpo"}, True),
    ("async_grpo", "vllm_server_base_url", {}, True),
]


@pytest.mark.parametrize(("trainer", "name", "changes", "counts"), CASES)
def test_a_field_without_effect_says_so(
    asker: Asker, trainer: str, name: str, changes: dict[str, Any], counts: bool
) -> None:
    fields = {field.name: field for field in read_fields(asker, trainer)}
    why = without_effect(fields[name], {**{it.name: it.default for it in fields.values()}, **changes})
    assert (why is None) == counts, why


def test_what_trls_help_says_needs_no_table() -> None:
    field = Field(name="gamma", owner="C", type="float", help="Used only when the `loss_type='other'`. Ignored if x.")
    assert without_effect(field, {"loss_type": "this"}) == "it counts only where loss_type is other"
    assert without_effect(field, {"loss_type": "other"}) is None
    assert without_effect(field, {}) is None
