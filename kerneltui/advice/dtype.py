"""The dtype: whether the GPU and the attention compute in what the plan asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kerneltui.advice.device import before_ampere, is_flash
from kerneltui.advice.finding import Finding, Fix
from kerneltui.advice.fixes import use_dtype
from kerneltui.advice.health.naming import card
from kerneltui.advice.situation import Situation
from kerneltui.text import nearest

_DTYPES = ("auto", "bfloat16", "float16", "float32")
_SHORT_DTYPES = {
    "bf16": "bfloat16",
    "fp16": "float16",
    "half": "float16",
    "fp32": "float32",
    "float": "float32",
}


def bf16_before_ampere(situation: Situation) -> list[Finding]:
    """GPUs before compute capability 8.0 have no bfloat16 arithmetic."""
    old = before_ampere(situation)
    autocast = situation.autocast == "bfloat16"
    if not old or not (autocast or situation.settings.dtype == "bfloat16"):
        return []
    default = "TRL turns bf16 on unless fp16 is set. " if "bf16" not in situation.settings.given and autocast else ""
    return [
        Finding(
            id="dtype.bf16",
            severity="block",
            title=f"{card(old[0])} has no bfloat16",
            why=f"{default}bfloat16 needs compute capability 8.0 or newer. "
            "An older torch refuses it; a newer one emulates it, which takes many times as long.",
            origin="known",
            source="https://github.com/unslothai/unsloth/issues/2783",
            fixes=(_use_fp16(situation),),
        )
    ]


def flash_in_float32(situation: Situation) -> list[Finding]:
    """FlashAttention computes in float16 and bfloat16 only; a kernel from the Hub says so at the first forward pass."""
    if not situation.on_gpu or not is_flash(situation) or situation.compute_dtype != "float32":
        return []
    return [
        Finding(
            id="dtype.flash",
            severity="block",
            title=f"{situation.attention.implementation} cannot compute in float32",
            why="FlashAttention takes float16 or bfloat16. The weights are in float32, and bf16 and fp16 are off.",
            origin="known",
            source="https://github.com/unslothai/unsloth/issues/827",
            fixes=(use_dtype(situation, "bfloat16"), Fix(label="Compute in bf16", changes={"bf16": True})),
        )
    ]


def dtype_name(situation: Situation) -> list[Finding]:
    """TRL takes four names of dtypes; in a YAML file another one is refused only when the model is loaded."""
    name = situation.settings.dtype
    if name is None or name in _DTYPES:
        return []
    short = name.removeprefix("torch.").lower()
    close = _SHORT_DTYPES.get(short) or nearest(short, _DTYPES)
    return [
        Finding(
            id="dtype.name",
            severity="block",
            title=f"TRL knows no dtype {name!r}",
            why=f"It takes {', '.join(_DTYPES)}, and would refuse this one only when it loads the model.",
            origin="asked",
            source=situation.cite("trl", "trainer.utils.create_model_from_path"),
            fixes=(use_dtype(situation, close),) if close else (),
        )
    ]


def _use_fp16(situation: Situation) -> Fix:
    """Return the fix to mixed float16, which keeps its weights in float32."""
    changes: dict[str, Any] = {"fp16": True, **({"bf16": None} if "bf16" in situation.settings.given else {})}
    if situation.settings.dtype not in (None, "auto", "float32"):
        changes |= use_dtype(situation, "float32").changes
    return Fix(label="Compute in float16", changes=changes)


RULES: tuple[Callable[[Situation], list[Finding]], ...] = (bf16_before_ampere, flash_in_float32, dtype_name)
