"""Packages: whether those that the plan needs are there and accept one another."""

from __future__ import annotations

from collections.abc import Callable

from kerneltui.advice.finding import Finding, Fix, Severity
from kerneltui.advice.fixes import install, use_native
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
            title=f"Kernels from the Hub cannot load: {_mismatch(situation)}",
            why=_range(situation),
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
            why=f"{_mismatch(situation).capitalize()}, so the kernel that would stand in cannot load either. "
            f"transformers would only say that the package is missing. {_range(situation)}",
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
                install(situation, "Install it", "liger-kernel"),
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


def _mismatch(situation: Situation) -> str:
    installed = situation.server.packages.get("kernels")
    if installed is None:
        return "the package kernels is not installed"
    if installed.error:
        return f"kernels {installed.version} cannot be imported"
    return f"transformers {situation.version('transformers')} does not accept kernels {installed.version}"


def _range(situation: Situation) -> str:
    """Return the range of kernels that the installed transformers accepts, and an import error where there is one."""
    installed = situation.server.packages.get("kernels")
    error = f" Its import says: {installed.error}" if installed and installed.error else ""
    bounds = _bounds(situation)
    return f"This transformers accepts kernels {bounds}.{error}" if bounds else error.strip()


def _bounds(situation: Situation) -> str:
    libraries = situation.server.libraries
    low = libraries.kernels_minimum if libraries else None
    high = libraries.kernels_maximum if libraries else None
    return ",".join(part for part in (low and f">={low}", high and f"<{high}") if part)


def _kernels_fixes(situation: Situation, *, native: bool) -> tuple[Fix, ...]:
    # The extra first: transformers may ask for a kernels that is not published yet, and then only pip's resolver finds
    # the newest transformers that goes with a published one (seen with 5.24.0, which asks for 0.18.2).
    together = install(situation, "Let pip choose a transformers and a kernels that fit", "transformers[kernels]")
    bounds = _bounds(situation)
    fitting = (install(situation, "Or only change kernels", f"kernels{bounds}"),) if bounds else ()
    return (together, *fitting, *((use_native(situation),) if native else ()))


RULES: tuple[Callable[[Situation], list[Finding]], ...] = (kernels_pair, flash_missing, liger_missing)
