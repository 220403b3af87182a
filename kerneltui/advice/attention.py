"""The attention implementation: what a name becomes, and whether the model's class can use it."""

from __future__ import annotations

from collections.abc import Callable

from kerneltui.advice.finding import Finding
from kerneltui.advice.fixes import use_attention, use_native
from kerneltui.advice.situation import Situation
from kerneltui.facts.model import ModelFacts


def stand_in(situation: Situation) -> list[Finding]:
    """Without its own package a native flash name becomes a kernel from the Hub, and only a log line says so."""
    choice = situation.attention
    if choice.kind != "kernel" or not str(choice.asked).startswith("flash_attention_") or _swapped(situation):
        return []
    return [
        Finding(
            id="attention.stand_in",
            severity="note",
            title=f"{choice.asked} will really be {choice.repository}, branch {choice.revision}",
            why=f"The package for {choice.asked} is not installed, so transformers takes this kernel from the Hub. "
            "The branch is its own choice and may change with its version; the name below keeps it.",
            origin="asked",
            source=situation.cite("transformers", "PreTrainedModel._check_and_adjust_attn_implementation"),
            fixes=(use_attention(situation, f"{choice.repository}@{choice.revision}", "Pin this branch"),),
        )
    ]


def swapped(situation: Situation) -> list[Finding]:
    """A model class may allow some flash implementations only; another name is replaced, without its revision."""
    choice, model = situation.attention, situation.model
    if not _swapped(situation) or model is None or not model.compatible_flash:
        return []
    pinned = "@" in str(choice.asked)
    return [
        Finding(
            id="attention.swapped",
            severity="warn" if pinned else "note",
            title=f"{choice.asked} will be replaced by {choice.implementation}",
            why=f"{_class(model)} allows {', '.join(model.compatible_flash)} and compares whole names, also "
            "that of a stand-in from the Hub. "
            + ("The revision that you named is dropped. " if pinned else "")
            + "Only a log line would say so.",
            origin="asked",
            source=situation.cite_answer("transformers", f"{_class(model)}._compatible_flash_implementations"),
            fixes=(use_attention(situation, choice.implementation, "Write what will run"),),
        )
    ]


def no_flash(situation: Situation) -> list[Finding]:
    """A class that does not support flash attention refuses the native names and, since 5.24, flash kernels."""
    choice, model = situation.attention, situation.model
    name = choice.implementation
    if model is None or model.supports_flash is not False or name in (model.compatible_flash or ()):
        return []
    if "flash" not in name and choice.kind != "kernel":
        return []
    return [
        Finding(
            id="attention.no_flash",
            severity="block" if "flash" in name else "warn",
            title=f"{_class(model)} does not support flash attention, so it cannot use {name}",
            why="transformers refuses flash_attention_N for this class, and a flash kernel from the Hub since 5.24. "
            "Before that it loads the kernel for a class that was not made for it, and says nothing."
            if "flash" in name
            else "transformers gives such a kernel what it gives flash attention, for which this class was not made. "
            "It checks the name alone, so nothing would be said.",
            origin="asked",
            source=situation.cite_answer("transformers", f"{_class(model)}._supports_flash_attn"),
            fixes=(use_native(situation),),
        )
    ]


def no_sdpa(situation: Situation) -> list[Finding]:
    """A class without sdpa refuses it when it is named; when nothing is named it takes eager."""
    return _refused_builtin(situation, "sdpa", "_supports_sdpa", lambda model: model.supports_sdpa)


def no_flex(situation: Situation) -> list[Finding]:
    """A class without flex_attention refuses it."""
    return _refused_builtin(situation, "flex_attention", "_supports_flex_attn", lambda model: model.supports_flex)


def flex_on_cpu(situation: Situation) -> list[Finding]:
    """Torch's FlexAttention has no backward on the CPU."""
    if situation.attention.implementation != "flex_attention" or situation.on_gpu is not False:
        return []
    return [
        Finding(
            id="attention.flex_on_cpu",
            severity="block",
            title="flex_attention cannot train on the CPU",
            why="torch has its backward for GPUs only, and raises at the first step.",
            origin="known",
            source="torch 2.13: FlexAttention (NotImplementedError: does not support backward on CPU)",
            fixes=(use_native(situation),),
        )
    ]


def softcap(situation: Situation) -> list[Finding]:
    """Sdpa cannot cap attention logits and raises at the first forward pass of a model that does."""
    choice, model = situation.attention, situation.model
    if model is None or model.softcap is None or choice.implementation != "sdpa" or model.supports_sdpa is False:
        return []
    fixes = [use_attention(situation, "eager", "Take the plain attention")]
    if model.supports_flex and situation.on_gpu:
        fixes.insert(0, use_attention(situation, "flex_attention", "Take FlexAttention"))
    return [
        Finding(
            id="attention.softcap",
            severity="block",
            title=f"sdpa cannot cap attention logits, and this model caps them at {model.softcap:g}",
            why="transformers raises at the first forward pass. eager and flex_attention can do it.",
            origin="asked",
            source=situation.cite("transformers", "integrations.sdpa_attention.sdpa_attention_forward"),
            fixes=tuple(fixes),
        )
    ]


def _refused_builtin(
    situation: Situation, name: str, flag: str, supports: Callable[[ModelFacts], bool | None]
) -> list[Finding]:
    choice, model = situation.attention, situation.model
    if model is None or choice.asked is None or choice.implementation != name or supports(model) is not False:
        return []
    return [
        Finding(
            id=f"attention.no_{name.partition('_')[0]}",
            severity="block",
            title=f"{_class(model)} does not support {name}",
            why="transformers refuses it before the weights are read.",
            origin="asked",
            source=situation.cite_answer("transformers", f"{_class(model)}.{flag}"),
            fixes=(use_native(situation),),
        )
    ]


def _swapped(situation: Situation) -> bool:
    """Whether the model class's own list, and not only the table of stand-ins, decided on the implementation."""
    choice, model, libraries = situation.attention, situation.model, situation.server.libraries
    asked = str(choice.asked).removeprefix("paged|")
    stand_in = libraries.attention_fallbacks.get(asked) if libraries else None
    listed = bool(model and model.compatible_flash) and "flash" in asked
    return listed and choice.implementation not in (asked, stand_in)


def _class(model: ModelFacts) -> str:
    return model.architectures[0] if model.architectures else f"the class of {model.model_type}"


RULES: tuple[Callable[[Situation], list[Finding]], ...] = (
    stand_in,
    swapped,
    no_flash,
    no_sdpa,
    no_flex,
    flex_on_cpu,
    softcap,
)
