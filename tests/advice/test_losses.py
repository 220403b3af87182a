"""Options that no constructor looks at, each with its harmless neighbour."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.advice.situations import GQA, H200, blocks, changes, findings, make_server


@pytest.mark.parametrize(
    ("trainer", "field", "wrong", "right"),
    [
        ("dpo", "loss_type", ["sigmoyd"], ["sigmoid"]),
        ("dpo", "f_divergence_type", "js_divergense", "js_divergence"),
        ("kto", "loss_type", "ktoo", "kto"),
        ("grpo", "loss_type", "dapoo", "dapo"),
        ("grpo", "importance_sampling_level", "sequences", "sequence"),
        ("grpo", "scale_rewards", "groups", "group"),
    ],
)
def test_names_that_are_refused_at_the_first_step(trainer: str, field: str, wrong: Any, right: Any) -> None:
    found = findings(trainer, given={field: wrong})[f"losses.name.{field}"]
    assert found.severity == "block"
    assert changes(found) == [{field: right}, {field: None}]
    assert blocks(trainer, given={field: right}) == set()
    assert blocks("sft", given={field: "nll"}) == set()


def test_smoothing_that_dft_leaves_aside() -> None:
    given = {"loss_type": "dft", "label_smoothing_factor": 0.1}
    assert findings(given=given)["losses.smoothing"].severity == "warn"
    assert not findings(given={**given, "loss_type": "nll"})
    assert not findings(given={"loss_type": "dft"})


def test_the_adapter_of_a_reward_model() -> None:
    found = findings("reward", given={"use_peft": True})["losses.reward_task"]
    assert found.severity == "block"
    assert changes(found)[0]["lora_task_type"] == "SEQ_CLS"
    assert not findings("reward", given={"use_peft": True, "lora_task_type": "SEQ_CLS"})
    assert not findings("sft", given={"use_peft": True})


def test_the_revision_of_the_policy_is_that_of_the_reward_model() -> None:
    given = {"reward_model_name_or_path": "a/reward", "model_revision": "v2"}
    assert findings("grpo", given=given)["losses.reward_revision"].severity == "warn"
    assert not findings("grpo", given={**given, "model_revision": "main"})
    assert not findings("grpo", given={"model_revision": "v2"})


def test_case_88_vocabularies_of_student_and_teacher() -> None:
    teacher = msgspec.structs.replace(GQA, vocabulary=152064)
    found = findings("distillation", teacher=teacher)["losses.vocabulary"]
    assert found.severity == "block"
    assert "152064 tokens, the student's 151936" in found.title
    assert not findings("distillation", teacher=GQA)
    assert not findings("distillation")


def test_vespo_corrects_by_tokens() -> None:
    given = {
        "loss_type": "vespo", "use_vllm": True, "vllm_importance_sampling_correction": True,
        "vllm_importance_sampling_mode": "sequence_mask",
    }  # fmt: skip
    assert "losses.vespo" in blocks("grpo", given=given)
    assert "losses.vespo" not in blocks("grpo", given={**given, "vllm_importance_sampling_mode": "token_mask"})
    assert "losses.vespo" not in blocks("grpo", given={**given, "use_vllm": False})


def test_case_33_gmpo_with_ligers_loss() -> None:
    given = {"use_liger_kernel": True}
    assert "losses.gmpo_liger" in blocks("gmpo", given=given, server=make_server(H200, trl="1.13.0"))
    assert "losses.gmpo_liger" not in blocks("gmpo", given=given, server=make_server(H200, trl="1.14.2"))
    assert "losses.gmpo_liger" not in blocks("grpo", given=given, server=make_server(H200, trl="1.13.0"))


def test_selective_recomputing_is_sfts_alone() -> None:
    given = {"gradient_checkpointing_kwargs": {"selective": True, "use_reentrant": False}}
    found = findings("grpo", given=given)["losses.selective"]
    assert changes(found) == [{"gradient_checkpointing_kwargs": {"use_reentrant": False}}]
    assert blocks("sft", given=given) == set()
    assert blocks("sft", given=given, server=make_server(H200, trl="1.14.2")) == {"losses.selective"}
    assert blocks("grpo", given={"gradient_checkpointing_kwargs": {"use_reentrant": False}}) == set()
    assert blocks("grpo", given={**given, "gradient_checkpointing": False}) == set()
