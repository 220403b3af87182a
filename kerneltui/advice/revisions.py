"""Revisions of a kernel: whether one fits this server and this model, and which others do."""

from __future__ import annotations

import re

from kerneltui.advice import known
from kerneltui.advice.finding import Fix
from kerneltui.advice.fixes import use_attention, use_native
from kerneltui.advice.loading import load_problem
from kerneltui.advice.situation import Situation
from kerneltui.facts.kernel_records import KernelBuild, KernelMetadata
from kerneltui.facts.server import AMPERE


def other_revisions(situation: Situation) -> tuple[Fix, ...]:
    """Return the fixes that take another revision of the kernel which fits here, then the one for built-in attention.

    The newest is first, but one that is not known to train this model comes after those that are.
    """
    fitting = [build for build in situation.alternatives or () if _fits(situation, build)]
    fitting.sort(key=lambda build: _backward(situation, build) == "unproven")
    fixes = [
        use_attention(situation, f"{build.repository}@{build.revision}", f"Take another revision ({build.variant})")
        for build in fitting[:3]
    ]
    return (*fixes, use_native(situation))


def arch_reason(situation: Situation, metadata: KernelMetadata | None) -> str | None:
    """Return why a build does not run on a GPU of the run, in kernels' own words."""
    # Older cards get a clearer word from the rule for FlashAttention itself.
    if metadata is None or situation.on_gpu is False or _too_old_for_flash(situation):
        return None
    return metadata.arch_error


def build_name(build: KernelBuild) -> str:
    """Return repository@revision, a commit by its first digits."""
    commit = re.fullmatch(r"[0-9a-f]{40}", build.revision)
    return f"{build.repository}@{build.revision[:8] if commit else build.revision}"


def _fits(situation: Situation, build: KernelBuild) -> bool:
    """Whether another revision would load here and is not known to fail with this model."""
    chosen = situation.attention
    if build.variant is None or (build.repository, build.revision) == (chosen.repository, chosen.revision):
        return False
    if load_problem(build.metadata, situation.server) or arch_reason(situation, build.metadata):
        return False
    return _backward(situation, build) != "broken"


def _backward(situation: Situation, build: KernelBuild) -> known.Backward | None:
    """Return what is known of training this model with a build; heads that are not known may be grouped."""
    grouped = situation.model is None or situation.model.grouped
    affected = build.repository == known.FLASH_ATTENTION_2 and grouped
    return known.grouped_backward(build.revision, build, None) if affected else None


def _too_old_for_flash(situation: Situation) -> bool:
    capabilities = situation.capabilities
    return bool(capabilities) and capabilities[0] < AMPERE and "flash" in situation.attention.implementation
