"""Packages: whether those that the plan needs are there and accept one another."""

from __future__ import annotations

from collections.abc import Callable

from kerneltui.advice.finding import Finding, Fix, Severity
from kerneltui.advice.fixes import install, use_native
from kerneltui.advice.health.packages import pair_fixes, pair_mismatch, pair_range
from kerneltui.advice.situation import Situation
from kerneltui.facts.packages import kernels_usable


def kernels_pair(situation: Situation) -> list[Finding]:
    """Kernels from the Hub load only with a kernels package in the range that transformers names."""
    if not situation.server.packages or kernels_usable(situation.server) or _native_flash(situation):
        return []
    severity: Severity = "block" if _wants_kernels(situation) else "note"
    return [
        Finding(
            id="packages.kernels",
            severity=severity,
            title=f"Kernels from the Hub cannot load: {pair_mismatch(situation.server)}",
            why=pair_range(situation.server),
            origin="asked",
            source=situation.cite("transformers", "utils.import_utils.is_kernels_available"),
            fixes=_kernels_fixes(situation, native=severity == "block"),
        )
    ]


def flash_missing(situation: Situation) -> list[Finding]:
    """A native flash name needs its own package, or a usable kernels package for the stand-in from the Hub."""
    if not situation.server.packages or not _native_flash(situation):
        return []
    name = situation.attention.implementation
    return [
        Finding(
            id="packages.flash_attention",
            severity="block",
            title=f"{name} cannot load: its package is not installed, and no kernel can stand in for it",
            why=f"{pair_mismatch(situation.server).capitalize()}, so the kernel that would stand in cannot load "
            f"either. transformers would only say that the package is missing. {pair_range(situation.server)}",
            origin="asked",
            source=situation.cite("transformers", "PreTrainedModel._check_and_adjust_attn_implementation"),
            fixes=_kernels_fixes(situation, native=True),
        )
    ]


def liger_missing(situation: Situation) -> list[Finding]:
    """`use_liger_kernel` needs the package liger-kernel; transformers looks for it when training starts."""
    server = situation.server
    if not situation.settings.get("use_liger_kernel") or not server.packages or "liger-kernel" in server.packages:
        return []
    return [
        Finding(
            id="packages.liger",
            severity="block",
            title="use_liger_kernel needs the package liger-kernel, which is not installed",
            why="The run would stop when training starts, after the model and the data were loaded.",
            origin="asked",
            source=situation.cite("transformers", "Trainer (use_liger_kernel)"),
            fixes=(
                install(situation.server, "Install it", "liger-kernel"),
                Fix(label="Train without it", changes={"use_liger_kernel": None}),
            ),
        )
    ]


def _native_flash(situation: Situation) -> bool:
    """Whether a native flash name was asked for that this model's class could use, and transformers refuses it."""
    choice, model = situation.attention, situation.model
    named = bool(situation.server.libraries and choice.implementation in situation.server.libraries.flash_packages)
    return choice.kind == "unknown" and named and not (model and model.supports_flash is False)


def _wants_kernels(situation: Situation) -> bool:
    return situation.attention.kind == "kernel" or bool(situation.settings.model_kwargs.get("use_kernels"))


def _kernels_fixes(situation: Situation, *, native: bool) -> tuple[Fix, ...]:
    return (*pair_fixes(situation.server), *((use_native(situation),) if native else ()))


RULES: tuple[Callable[[Situation], list[Finding]], ...] = (kernels_pair, flash_missing, liger_missing)
