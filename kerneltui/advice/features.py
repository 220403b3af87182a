"""What the model asks of attention and the kernel cannot do: head dimensions, softcap, sinks, dropout, recurrence."""

from __future__ import annotations

from collections.abc import Callable

from kerneltui.advice import known
from kerneltui.advice.catalogue import KnownKernel, catalogue
from kerneltui.advice.finding import Finding, Fix, Severity
from kerneltui.advice.fixes import install, use_attention, use_native
from kerneltui.advice.situation import Situation

# The kernels whose code the packages behind the native names have.
_NATIVE = {
    "flash_attention_2": known.FLASH_ATTENTION_2,
    "flash_attention_3": f"{known.COMMUNITY}/flash-attn3",
    "flash_attention_4": known.FLASH_ATTENTION_4,
}
# flash-attn4 takes up to 256 on 9.x alone, and 128 on newer cards (interface.py 102-116).
_FLASH4_NEWER = 128


def head_dimension(situation: Situation) -> list[Finding]:
    """A kernel computes heads up to a size; the largest of any layer kind decides."""
    kernel, model = _kernel(situation), situation.model
    limit = _limit(situation, kernel) if kernel else None
    if kernel is None or model is None or limit is None or not model.head_dims:
        return []
    unit = kernel.head_dim_unit or 1
    wrong = [size for size in model.head_dims if size > limit or size % unit]
    if not wrong:
        return []
    what = f"only up to {limit}" if wrong[0] > limit else f"only multiples of {unit}"
    others = ", ".join(map(str, model.head_dims))
    fixes = (use_native(situation),)
    return [
        _finding(
            situation, "head_dim", "block", f"{_name(situation)} computes heads of {what}; this model has {wrong[0]}",
            f"Its layers have heads of {others}. The kernel raises at the first forward pass.", kernel, *fixes,
            source="https://github.com/NovaSky-AI/SkyRL/issues/1564",
        )
    ]  # fmt: skip


def softcap(situation: Situation) -> list[Finding]:
    """A kernel without a gradient for capped logits cannot train a model that caps them."""
    kernel, model = _kernel(situation), situation.model
    if kernel is None or model is None or model.softcap is None or kernel.softcap_trains is not False:
        return []
    fixes = [use_attention(situation, "eager", "Take the plain attention")]
    if model.supports_flex and situation.on_gpu:
        fixes.insert(0, use_attention(situation, "flex_attention", "Take FlexAttention"))
    title = f"{_name(situation)} cannot train with capped attention logits ({model.softcap:g})"
    why = f"softcap: {kernel.softcap}. A function without the argument is refused; with it, the backward pass raises."
    return [_finding(situation, "softcap", "block", title, why, kernel, *fixes)]


def sinks(situation: Situation) -> list[Finding]:
    """Attention sinks are dropped without a word where the function has no argument for them, or get no gradient."""
    kernel, model = _kernel(situation), situation.model
    if model is None or not model.sinks or situation.attention.kind not in ("kernel", "package"):
        return []
    if kernel is not None and kernel.sinks_train:
        return []
    passes = kernel is not None and kernel.sinks is not None and kernel.sinks != "no"
    severity: Severity = "warn" if passes else "block"
    fixes = [use_attention(situation, "eager", "Take the plain attention, which trains them")]
    if model.supports_flex and situation.on_gpu:
        fixes.append(use_attention(situation, "flex_attention", "Take FlexAttention"))
    title = (
        f"{_name(situation)} gives this model's attention sinks no gradient"
        if passes
        else f"{_name(situation)} would leave out this model's attention sinks"
    )
    why = (
        "The forward pass has them; they stay as they are in the checkpoint."
        if passes
        else "transformers passes them only to a function with an argument for them, and says nothing otherwise."
    )
    return [
        _finding(
            situation, "sinks", severity, title, why, kernel, *fixes,
            source="https://github.com/huggingface/transformers/issues/42736",
        )
    ]  # fmt: skip


def dropout(situation: Situation) -> list[Finding]:
    """Some kernels have no dropout, so that a model which asks for it is trained without."""
    kernel, model = _kernel(situation), situation.model
    if kernel is None or model is None or not model.dropout or kernel.dropout_applied is not False:
        return []
    title = f"{_name(situation)} applies no dropout to attention; the model asks for {model.dropout:g}"
    why = "Training goes on without it. sdpa and flash-attn2 apply it."
    return [_finding(situation, "dropout", "warn", title, why, kernel, use_native(situation))]


def recurrent_packing(situation: Situation) -> list[Finding]:
    """Layers that keep a state along the sequence carry it over the borders of packed samples."""
    model, get = situation.model, situation.settings.get
    joined = (get("packing") and get("packing_strategy") in ("bfd", "bfd_split", "bfd-requeue")) or get("padding_free")
    if model is None or not model.recurrent or situation.plan.trainer not in ("sft", "gkd", "gold") or not joined:
        return []
    if model.packed_needs == ():
        return []
    layers = situation.settings.model_kwargs.get("use_kernels")
    needs = model.packed_needs or ()
    without = Fix(label="Do not join samples", changes={"packing": None, "padding_free": None})
    fixes = (*((install(situation.server, "Install them", *needs),) if needs else ()), without)
    title = f"{model.model_type} has layers with a state, which joined samples would share"
    why = (
        f"transformers keeps them apart with {', '.join(needs)}, and raises at the first step without."
        if needs
        else "This transformers does not look for a package that would keep them apart, and says nothing."
    )
    return [
        Finding(
            id="features.recurrent_packing", severity="warn" if layers else "block", title=title, why=why,
            origin="asked" if needs else "known", source="https://github.com/huggingface/transformers/issues/46333",
            fixes=fixes,
        )
    ]  # fmt: skip


def no_recomputing(situation: Situation) -> list[Finding]:
    """TRL turns gradient checkpointing on; a class that does not support it raises."""
    model = situation.model
    if model is None or model.recomputes is not False or not situation.settings.get("gradient_checkpointing", True):
        return []
    return [
        Finding(
            id="features.recomputing", severity="block",
            title=f"{model.model_type} does not support gradient checkpointing",
            why="TRL turns it on unless gradient_checkpointing is false, and transformers raises for this class.",
            origin="asked", source=situation.cite_answer("transformers", "supports_gradient_checkpointing"),
            fixes=(Fix(label="Keep all activations", changes={"gradient_checkpointing": False}),),
        )
    ]  # fmt: skip


def no_router(situation: Situation) -> list[Finding]:
    """A loss on the router is refused for models that have none."""
    model, wanted = situation.model, situation.settings.get("router_aux_loss_coef")
    if model is None or model.router is not False or not wanted:
        return []
    return [
        Finding(
            id="features.router", severity="block",
            title=f"router_aux_loss_coef is for mixtures of experts, and {model.model_type} is none",
            why="The trainer refuses it once the model is loaded: its configuration gives no router's logits.",
            origin="asked", source=situation.cite_answer("transformers", "output_router_logits of the configuration"),
            fixes=(Fix(label="Leave it out", changes={"router_aux_loss_coef": None}),),
        )
    ]  # fmt: skip


def _kernel(situation: Situation) -> KnownKernel | None:
    """Return what is known of the attention that will run; nothing of a folder of this machine."""
    choice, build = situation.attention, situation.build
    if choice.kind == "package":
        return catalogue().get(_NATIVE.get(choice.implementation, ""))
    if choice.kind != "kernel" or (build is not None and build.source == "local"):
        return None
    found = catalogue().get(choice.repository or "")
    return None if found is None or found.unfit else found


def _limit(situation: Situation, kernel: KnownKernel) -> int | None:
    newer = any(capability >= (10, 0) for capability in situation.capabilities)
    if kernel.id == known.FLASH_ATTENTION_4 and newer:
        return _FLASH4_NEWER
    return kernel.max_head_dim


def _name(situation: Situation) -> str:
    return situation.attention.repository or situation.attention.implementation


def _finding(
    situation: Situation, name: str, severity: Severity, title: str, why: str, kernel: KnownKernel | None, *fixes: Fix,
    source: str | None = None,
) -> Finding:  # fmt: skip
    where = f"{kernel.source} ({kernel.files}), {kernel.date}" if kernel else ""
    read = source or where or situation.cite("transformers", "modeling_flash_attention_utils")
    return Finding(
        id=f"features.{name}", severity=severity, title=title, why=why, origin="known", source=read, fixes=fixes
    )


RULES: tuple[Callable[[Situation], list[Finding]], ...] = (
    *(head_dimension, softcap, sinks, dropout, recurrent_packing, no_recomputing, no_router),
)
