"""The backward pass: whether the kernel can train this model on this server, as far as public sources tell."""

from __future__ import annotations

from collections.abc import Callable

from kerneltui.advice import known
from kerneltui.advice.finding import Finding, Fix, Severity
from kerneltui.advice.fixes import use_attention, use_native
from kerneltui.advice.loading import cpu_backward
from kerneltui.advice.revisions import other_revisions
from kerneltui.advice.situation import Situation


def no_backward(situation: Situation) -> list[Finding]:
    """Some kernels are for inference, or no attention that transformers can call."""
    unfit = known.unfit_for_training(situation.attention.repository or "") if _from_hub(situation) else None
    if unfit is None:
        return []
    return [
        Finding(
            id="backward.none",
            severity="block",
            title=f"{situation.attention.repository} cannot be the attention of a training run",
            why=f"{unfit.why[0].upper()}{unfit.why[1:]}.",
            origin="known",
            source=unfit.source,
            fixes=(use_native(situation),),
        )
    ]


def grouped_heads(situation: Situation) -> list[Finding]:
    """The stable-ABI builds of flash-attn2 v3 fail in the backward pass where query heads share a key/value head."""
    choice, model = situation.attention, situation.model
    if choice.repository != known.FLASH_ATTENTION_2 or not _from_hub(situation) or situation.on_gpu is False:
        return []
    if situation.preflight and situation.preflight.passed:  # it was tried with these heads on this card
        return []
    torch = situation.server.torch
    verdict = known.grouped_backward(choice.revision or "", situation.build, torch.cuda if torch else None)
    if verdict in (None, "good"):
        return []
    if model is None or not model.heads or not model.kv_heads:
        return [_heads_unknown(situation)] if verdict == "broken" else []
    if not model.grouped:
        return []
    heads = f"{model.heads} query heads on {model.kv_heads} key/value heads"
    return [_broken(situation, heads) if verdict == "broken" else _unproven(situation, heads)]


def cpu_build(situation: Situation) -> list[Finding]:
    """The CPU build of flash-attn2 turns gradients off, so that attention would not be trained."""
    build = situation.build
    severity = cpu_backward(build) if build and _from_hub(situation) else None
    if build is None or severity is None:
        return []
    read = severity == "block"
    return [
        Finding(
            id="backward.cpu",
            severity=severity,
            title="The CPU build of flash-attn2 has no backward"
            if read
            else f"Whether the CPU build of flash-attn2@{build.revision} has a backward is not known",
            why="The source of v3 turns gradients off for tensors on the CPU: training would go on without a gradient "
            "through attention, and nothing would say so." + ("" if read else " Of other versions nothing was read."),
            origin="known",
            source=f"{known.SOURCES}/flash-attn2 (flash_attn_interface.py 1516, flash_attn_cpu/flash_api.cpp)",
            fixes=(use_native(situation),),
        )
    ]


def flash4_before_hopper(situation: Situation) -> list[Finding]:
    """flash-attn4 computes forward on 8.x, but refuses its backward there."""
    old = [capability for capability in situation.capabilities if capability[0] == 8]
    if situation.attention.repository != known.FLASH_ATTENTION_4 or not _from_hub(situation) or not old:
        return []
    return [
        Finding(
            id="backward.flash4",
            severity="block",
            title=f"flash-attn4 has no backward on compute capability {old[0][0]}.{old[0][1]}",
            why="Its backward asserts 9.x, 10.x, 11.x or 12.x; the forward pass alone would run here.",
            origin="known",
            source=f"{known.SOURCES}/flash-attn4 (interface.py 1010)",
            fixes=(use_attention(situation, known.FLASH_ATTENTION_2, "Take FlashAttention 2"), use_native(situation)),
        )
    ]


def _from_hub(situation: Situation) -> bool:
    """Whether the kernel is what the Hub publishes under that name, and not a folder of this server."""
    local = situation.build is not None and situation.build.source == "local"
    return situation.attention.kind == "kernel" and not local


def _broken(situation: Situation, heads: str) -> Finding:
    return Finding(
        id="backward.grouped_heads",
        severity="block",
        title=f"The backward pass of flash-attn2@{situation.attention.revision} fails with this model ({heads})",
        why="In the stable-ABI build of v3 the backward raises where query heads share a key/value head; the forward "
        "pass is right, and so is training with as many key/value heads as query heads. It was mended on 2026-09-01 "
        "in the build for CUDA 13.0; the one for CUDA 12.8 was not seen to be rebuilt.",
        origin="known",
        source=known.GROUPED_BACKWARD_ISSUE,
        fixes=_without_bug(situation),
    )


def _unproven(situation: Situation, heads: str) -> Finding:
    newer = (known.major_version(situation.attention.revision or "", situation.build) or 0) > 3
    severity: Severity = "note" if newer else "warn"
    return Finding(
        id="backward.unproven",
        severity=severity,
        title=f"flash-attn2@{situation.attention.revision} is unproven with this model ({heads})",
        why="v3 failed in the backward pass of such models, and no public word says that v4 does not."
        if newer
        else "v3 failed in the backward pass of such models until 2026-09-01, and this build may be from before that.",
        origin="known",
        source=known.GROUPED_BACKWARD_ISSUE,
        fixes=(Fix(label="Try two steps first", changes={"max_steps": 2}),),
    )


def _heads_unknown(situation: Situation) -> Finding:
    return Finding(
        id="backward.heads_unknown",
        severity="note",
        title=f"flash-attn2@{situation.attention.revision} fails where query heads share a key/value head",
        why="How many heads this model has is not known here.",
        origin="known",
        source=known.GROUPED_BACKWARD_ISSUE,
    )


def _without_bug(situation: Situation) -> tuple[Fix, ...]:
    """Return revisions without the bug: those that were asked about, else v2 where it was published for this torch."""
    torch = situation.server.torch
    if situation.alternatives is not None or torch is None or torch.cuda is None:
        return other_revisions(situation)
    release = ".".join(torch.version.split(".")[:2])
    older = (use_attention(situation, f"{known.FLASH_ATTENTION_2}@v2", "Take the version before it"),)
    return (*(older if known.has_build_of_v2(release, torch.cuda) else ()), use_native(situation))


RULES: tuple[Callable[[Situation], list[Finding]], ...] = (
    no_backward,
    grouped_heads,
    cpu_build,
    flash4_before_hopper,
)
