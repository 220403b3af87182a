"""The trainer: what it cannot do without, and what it says of its own options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from packaging.version import Version

from kerneltui.advice.finding import Finding, Fix, Severity
from kerneltui.advice.fixes import add_model_options
from kerneltui.advice.situation import Situation
from kerneltui.facts.packages import kernels_usable

# The trainers and the release in which TRL 1.15.0 began to warn that use_liger_kernel goes away in 2.0.0.
_LIGER_DEPRECATED = Version("1.15")
_LIGER_TRAINERS = ("sft", "dpo", "kto", "grpo", "rloo", "gkd", "gold", "gmpo")
# Those that learn from a second model.
_TAUGHT = ("distillation", "gkd", "gold", "iw_opd")

# Model types that liger-kernel 0.8.5 patches; for others use_liger_kernel does nothing.
_LIGER_MODELS = (
    *("deepseek_v2", "deepseek_v3", "deepseek_v4", "exaone4", "falcon_h1", "gemma", "gemma2", "gemma3_text"),
    *("gemma4_text", "glm4", "gpt_oss", "granite", "hunyuan_v1_dense", "hunyuan_v1_moe", "llama", "llama4_text"),
    *("ministral", "mistral", "mixtral", "nemotron", "olmo2", "olmo3", "phi3", "qwen2", "qwen3", "qwen3_5_moe_text"),
    *("qwen3_5_text", "qwen3_moe", "qwen3_next", "smollm3"),
)


def no_model(situation: Situation) -> list[Finding]:
    """Every script of TRL loads the model that `model_name_or_path` names."""
    if "model_name_or_path" not in situation.settings.values or situation.settings.get("model_name_or_path"):
        return []
    why = "A folder, or the name of a model on the Hub."
    return [_missing(situation, "model_name_or_path", "No model is named", why)]


def no_data(situation: Situation) -> list[Finding]:
    """Every script of TRL takes its data from `dataset_name` or from `datasets`."""
    values = situation.settings.values
    if "dataset_name" not in values or values["dataset_name"] or values.get("datasets"):
        return []
    why = "dataset_name is a data set on the Hub or a folder; datasets is a list, also of local files: "
    return [_missing(situation, "dataset_name", "No data is named", why + "{path: json, data_files: rows.jsonl}.")]


def no_teacher(situation: Situation) -> list[Finding]:
    """Distillation needs the model to learn from, here or (iw_opd) on a server."""
    name, get = "teacher_model_name_or_path", situation.settings.get
    if situation.plan.trainer not in _TAUGHT or get(name, "") is not None or get("use_teacher_server"):
        return []
    why = f"{situation.plan.trainer} learns from a second, larger model: a folder, or the name of a model on the Hub."
    return [_missing(situation, name, "No teacher is named", why)]


def no_reward(situation: Situation) -> list[Finding]:
    """The online trainers score completions with functions or with a reward model."""
    values, names = situation.settings.values, ("reward_funcs", "reward_model_name_or_path")
    if not all(name in values for name in names) or any(values[name] for name in names):
        return []
    why = "A function by its name or path (reward_funcs), or a model (reward_model_name_or_path)."
    return [_missing(situation, "reward_funcs", "Nothing scores the completions", why)]


def model_unread(situation: Situation) -> list[Finding]:
    """What kept the model's configuration from being read keeps TRL from it too; another machine may have it."""
    reason = situation.unknown.get("model")
    if situation.model is not None or not reason or not situation.settings.get("model_name_or_path"):
        return []
    title, _, rest = reason.partition("\n")
    severity: Severity = "warn" if situation.elsewhere else "block"
    unsure = "What depends on the model (its class, its heads, its dtype) was not checked."
    return [
        Finding(
            id="trainer.model",
            severity=severity,
            title=title,
            why="\n".join(part for part in (rest, unsure) if part),
            origin="asked",
            source=situation.cite_answer("transformers", "AutoConfig.from_pretrained"),
        )
    ]


def liger_deprecated(situation: Situation) -> list[Finding]:
    """From TRL 1.15 on use_liger_kernel only patches layers, and goes away in 2.0.0."""
    version = situation.version("trl")
    if not situation.settings.get("use_liger_kernel") or situation.plan.trainer not in _LIGER_TRAINERS:
        return []
    if version is None or version.release < _LIGER_DEPRECATED.release:
        return []
    return [
        Finding(
            id="trainer.liger_deprecated",
            severity="note",
            title="use_liger_kernel goes away in TRL 2.0.0",
            why=f"In TRL {version} it patches the layers and no longer the loss, which is fused by the trainer itself. "
            "TRL names the layer kernels of the Hub as its successor.",
            origin="known",
            source=situation.cite("trl", f"{situation.plan.trainer}_trainer (use_liger_kernel)"),
            fixes=_layer_kernels(situation),
        )
    ]


def liger_reward(situation: Situation) -> list[Finding]:
    """Liger's fused loss replaces the forward of a reward model, which has no lm_head."""
    get, model = situation.settings.get, situation.model
    config: Any = get("liger_kernel_config") or {}
    fused = config.get("fused_linear_cross_entropy", True) if isinstance(config, dict) else None
    if situation.plan.trainer != "reward" or not get("use_liger_kernel") or not fused:
        return []
    if model is None or model.model_type not in _LIGER_MODELS:
        return []
    without = {"liger_kernel_config": {**config, "fused_linear_cross_entropy": False}}
    return [
        Finding(
            id="trainer.liger_reward",
            severity="block",
            title="use_liger_kernel breaks reward models",
            why="Liger's fused loss replaces the forward pass and looks for lm_head, which a reward model lacks. "
            "Without that loss it works.",
            origin="known",
            source=situation.cite("trl", "RewardTrainer, run with liger-kernel 0.8.5"),
            fixes=(
                Fix(label="Keep Liger without its fused loss", changes=without),
                Fix(label="Train without Liger", changes={"use_liger_kernel": None}),
            ),
        )
    ]


def _missing(situation: Situation, field: str, title: str, why: str) -> Finding:
    return Finding(
        id=f"trainer.missing.{field}",
        severity="block",
        title=f"{title} ({field})",
        why=why,
        origin="known",
        source=situation.cite("trl", f"scripts.{situation.plan.trainer}"),
    )


def _layer_kernels(situation: Situation) -> tuple[Fix, ...]:
    """Return the fix that takes layer kernels from the Hub, where they can load."""
    if not kernels_usable(situation.server):
        return ()
    fix = add_model_options(situation, "Use the Hub's layer kernels instead", use_kernels=True)
    return (msgspec.structs.replace(fix, changes={"use_liger_kernel": None, **fix.changes}),)


RULES: tuple[Callable[[Situation], list[Finding]], ...] = (
    no_model,
    no_data,
    no_teacher,
    no_reward,
    model_unread,
    liger_deprecated,
    liger_reward,
)
