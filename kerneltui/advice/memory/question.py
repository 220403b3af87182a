"""What the installed transformers is asked about a plan's memory."""

from __future__ import annotations

from typing import Any

from kerneltui.advice.situation import Situation

BESIDE = ("teacher_model_name_or_path", "reward_model_name_or_path")
"""The fields that name models which stand beside the trained one."""

# The fields of TRL's ModelConfig that become arguments of PEFT's LoraConfig (trl 1.16.0 `get_peft_config`).
_LORA = {
    "lora_r": "r", "lora_alpha": "lora_alpha", "lora_dropout": "lora_dropout", "lora_task_type": "task_type",
    "lora_target_modules": "target_modules", "lora_modules_to_save": "modules_to_save", "use_rslora": "use_rslora",
    "use_dora": "use_dora", "lora_target_parameters": "target_parameters",
}  # fmt: skip


def question_of(situation: Situation) -> dict[str, Any] | None:
    """Return the arguments of the worker's `transformers.memory` but `cwd`, None where there is no model to ask about.

    What is not among them (rows, length, optimizer, card) changes no answer.
    """
    settings, get = situation.settings, situation.settings.get
    path = get("model_name_or_path")
    if not isinstance(path, str) or situation.model is None:
        return None
    revision = settings.model_kwargs.get("revision", get("model_revision"))
    dtype = settings.dtype or "float32"
    return {
        "path": path,
        "revision": None if revision == "main" else revision,
        "trust_remote_code": bool(get("trust_remote_code")),
        "dtype": (situation.model.dtype or "float32") if dtype == "auto" else dtype,
        "autocast": situation.autocast,
        "attention": "eager" if situation.attention.implementation == "eager" else "fused",
        "checkpointing": bool(get("gradient_checkpointing", True)),
        "layer_kernels": bool(get("use_liger_kernel")),
        "score": situation.plan.trainer == "reward",
        "lora": _lora(situation) if get("use_peft") else None,
    }


def _lora(situation: Situation) -> dict[str, Any]:
    values = {name: situation.settings.get(field) for field, name in _LORA.items()}
    modules = values["target_modules"]
    if isinstance(modules, list) and len(modules) == 1:  # TRL makes a word of it, such as all-linear
        values["target_modules"] = modules[0]
    return {name: value for name, value in values.items() if value is not None}
