"""Plans whose answer depends on the release of TRL, with what each recorded release must say.

`None` takes the options; else the words that its error must hold. The releases are those of tests/advice/answers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

OLD, NEW = "1.10.0", "1.16.0"


class Case(NamedTuple):
    """A trainer with the options that a person gave; `limit` is the rule that knows the refusal without asking."""

    name: str
    trainer: str
    given: dict[str, Any]
    old: str | None = None
    new: str | None = None
    limit: str | None = None


_LIGER = {"use_liger_kernel": True}
_HEAD = {"use_peft": True, "lora_target_modules": ["q_proj", "lm_head"]}
_BODY = {"use_peft": True, "lora_target_modules": ["q_proj"]}
_SYNC = {"sync_ref_model": True}


def _both(name: str, trainer: str, given: dict[str, Any], words: str | None, limit: str | None = None) -> Case:
    return Case(name, trainer, given, words, words, limit)


CASES = (
    *(_both(f"defaults of {name}", name, {}, None) for name in ("sft", "dpo", "kto", "reward", "grpo", "rloo")),
    _both("defaults of distillation", "distillation", {}, None),
    # G5
    Case(
        "g5 dpo liger divergence", "dpo", {**_LIGER, "f_divergence_type": "js_divergence"}, "f_divergence_type", None,
        "limits.liger_divergence",
    ),
    _both("g5 dpo liger alone", "dpo", _LIGER, None),
    _both("g5 dpo divergence alone", "dpo", {"f_divergence_type": "js_divergence"}, None),
    Case(
        "g5 sft liger chunked", "sft", {**_LIGER, "loss_type": "chunked_nll"}, "chunked_nll", None,
        "limits.liger_chunked",
    ),
    _both("g5 sft liger alone", "sft", _LIGER, None),
    _both("g5 sft chunked alone", "sft", {"loss_type": "chunked_nll"}, None),
    # G8
    Case(
        "g8 dpo liger precompute", "dpo", {**_LIGER, "precompute_ref_log_probs": True}, "precompute_ref_log_probs",
        None, "limits.liger_precompute",
    ),
    Case(
        "g8 kto liger precompute", "kto", {**_LIGER, "precompute_ref_log_probs": True}, "precompute_ref_log_probs",
        None, "limits.liger_precompute",
    ),
    _both("g8 dpo precompute alone", "dpo", {"precompute_ref_log_probs": True}, None),
    *(
        Case(f"g8 {it} liger head", it, {**_LIGER, **_HEAD}, "lm_head", "lm_head", "limits.lm_head limits.liger_head")
        for it in ("dpo", "kto", "grpo")
    ),
    _both("g8 dpo liger body", "dpo", {**_LIGER, **_BODY}, None),
    Case("g8 gold liger uld", "gold", {**_LIGER, "use_uld_loss": True}, "iger", None, "limits.liger_uld"),
    _both("g8 gold liger alone", "gold", _LIGER, None),
    # 27
    _both("27 padding-free with a length", "sft", {"padding_free": True, "max_length": 1024}, "max_length"),
    _both("27 padding-free packed", "sft", {"padding_free": True, "packing": True}, None),
    _both("27 padding-free without a length", "sft", {"padding_free": True, "max_length": None}, None),
    _both("packing without a length", "sft", {"packing": True, "max_length": None}, "max_length"),
    # 34
    _both("34 sft head", "sft", _HEAD, "lm_head", "limits.lm_head"),
    *(Case(f"34 {it} head", it, _HEAD, None, "lm_head", "limits.lm_head") for it in ("dpo", "kto", "grpo", "rloo")),
    *(_both(f"34 {name} body", name, _BODY, None) for name in ("sft", "dpo", "kto", "grpo", "rloo", "reward")),
    _both("34 distillation head", "distillation", _HEAD, "lm_head", "limits.lm_head"),
    _both("34 reward head", "reward", _HEAD, None),
    # 89
    _both("89 kto one sample", "kto", {"per_device_train_batch_size": 1}, "batch size", "limits.kto_batch"),
    _both("89 kto two samples", "kto", {"per_device_train_batch_size": 2}, None),
    _both(
        "89 kto one sample without KL", "kto",
        {"per_device_train_batch_size": 1, "loss_type": "apo_zero_unpaired"}, None,
    ),
    _both("kto random order", "kto", {"train_sampling_strategy": "random"}, "sequential", "limits.kto_sampling"),
    _both(
        "kto random order without KL", "kto",
        {"train_sampling_strategy": "random", "loss_type": "apo_zero_unpaired"}, None,
    ),
    # Losses and reference models
    _both("sft loss name", "sft", {"loss_type": "nil"}, "loss_type", "limits.sft_loss"),
    _both("sft dft", "sft", {"loss_type": "dft"}, None),
    _both("dpo exo without smoothing", "dpo", {"loss_type": ["exo_pair"]}, "exo_pair", "limits.exo_pair"),
    _both("dpo exo", "dpo", {"loss_type": ["exo_pair"], "label_smoothing": 0.001}, None),
    _both(
        "dpo divergence of a loss without", "dpo", {"loss_type": ["aot"], "f_divergence_type": "js_divergence"},
        "f_divergence_type", "limits.divergence",
    ),
    _both("dpo aot", "dpo", {"loss_type": ["aot"]}, None),
    _both("dpo weighting aot", "dpo", {"loss_type": ["aot"], "use_weighting": True}, "aot", "limits.weighting"),
    _both("dpo weighting", "dpo", {"use_weighting": True}, None),
    _both("dpo sync adapter", "dpo", {**_SYNC, **_BODY}, "PEFT", "limits.sync_reference_adapter"),
    _both("kto sync adapter", "kto", {**_SYNC, **_BODY}, "PEFT", "limits.sync_reference_adapter"),
    _both("dpo sync", "dpo", _SYNC, None),
    _both(
        "dpo sync precompute", "dpo", {**_SYNC, "precompute_ref_log_probs": True}, "precompute_ref_log_probs",
        "limits.sync_reference_precomputed",
    ),
    _both("grpo sync without beta", "grpo", _SYNC, "beta", "limits.sync_reference_unused"),
    _both("grpo sync with beta", "grpo", {**_SYNC, "beta": 0.04}, None),
    _both(
        "grpo sync adapter", "grpo", {**_SYNC, **_BODY, "beta": 0.04}, "PEFT", "limits.sync_reference_adapter"
    ),
    _both("grpo reward weights", "grpo", {"reward_weights": [1.0, 2.0]}, "weights"),
    _both("grpo one reward weight", "grpo", {"reward_weights": [1.0]}, None),
    # Liger in the releases that fuse the loss themselves
    *(
        Case(
            f"{name} liger fused", name, {**_LIGER, "liger_kernel_config": {"fused_linear_cross_entropy": True}},
            None, "fused_linear_cross_entropy", "limits.liger_fused",
        )
        for name in ("sft", "grpo", "rloo")
    ),
    _both("reward liger", "reward", _LIGER, None),
    # Recomputing
    Case(
        "sft selective without recomputing", "sft",
        {"gradient_checkpointing": False, "gradient_checkpointing_kwargs": {"selective": True}}, None, "selective",
    ),
)  # fmt: skip
