"""Builds: whether the chosen revision has one that loads on this server."""

from __future__ import annotations

from collections.abc import Callable

from kerneltui.advice.finding import Finding, Fix
from kerneltui.advice.fixes import install, use_native
from kerneltui.advice.loading import is_older, platform_name, refusal
from kerneltui.advice.revisions import arch_reason, build_name, other_revisions
from kerneltui.advice.situation import Situation
from kerneltui.facts.kernel_records import KernelBuild, KernelMetadata, VariantDecision
from kerneltui.facts.packages import read_version


def no_variant(situation: Situation) -> list[Finding]:
    """A revision loads only if kernels accepts one of its builds for this torch, CUDA, processor and system."""
    build = situation.build
    if build is None or build.variant is not None:
        return []
    return [
        Finding(
            id="variants.none",
            severity="block",
            title=f"{build_name(build)} has no build for {platform_name(situation.server)}",
            why="\n".join(_refusals(build.decisions)) or "This revision has no builds at all.",
            origin="asked",
            source=situation.cite_answer("kernels", "variants.resolve_variants"),
            fixes=other_revisions(situation),
        )
    ]


def unreadable_metadata(situation: Situation) -> list[Finding]:
    """A build whose metadata.json kernels cannot read does not load, although its name fits."""
    build, metadata = _accepted(situation)
    if build is None or metadata is None or not metadata.error:
        return []
    return [
        Finding(
            id="variants.metadata",
            severity="block",
            title=f"The build {build.variant} of {build_name(build)} fits, but its metadata.json cannot be read",
            why=f"{metadata.error}\nBuilds from before metadata.json was required are still on some branches.",
            origin="asked",
            source="https://github.com/huggingface/kernels-community/issues/969",
            fixes=other_revisions(situation),
        )
    ]


def missing_depends(situation: Situation) -> list[Finding]:
    """A build may need Python packages, which kernels asks for before it imports the kernel."""
    build, metadata = _accepted(situation)
    if build is None or metadata is None or not metadata.missing_depends:
        return []
    names = ", ".join(metadata.missing_depends)
    return [
        Finding(
            id="variants.depends",
            severity="block",
            title=f"{build_name(build)} needs Python packages that are not installed: {names}",
            why="kernels refuses to load a kernel whose python-depends are not there.",
            origin="asked",
            source=situation.cite_answer("kernels", "validate (python-depends in metadata.json)"),
            fixes=(install(situation.server, "Install them", *metadata.missing_depends), use_native(situation)),
        )
    ]


def refused_build(situation: Situation) -> list[Finding]:
    """A build may ask for a newer kernels, or for something that the installed kernels does not know."""
    build, metadata = _accepted(situation)
    if build is None or metadata is None:
        return []
    installed, needed = situation.version("kernels"), metadata.kernels_minimum
    reason = refusal(metadata, installed)
    if reason is None:
        return []
    newer = _newer_kernels(situation, needed) if is_older(installed, needed) else ()
    return [
        Finding(
            id="variants.refused",
            severity="block",
            title=f"kernels refuses the build {build.variant} of {build_name(build)}",
            why=reason,
            origin="asked",
            source=situation.cite_answer("kernels", "validate (kernels-minver in metadata.json)"),
            fixes=(*newer, *other_revisions(situation)),
        )
    ]


def wrong_architecture(situation: Situation) -> list[Finding]:
    """A build that fits torch and CUDA may still hold no code for the GPU's architecture."""
    build, metadata = _accepted(situation)
    reason = arch_reason(situation, metadata)
    if build is None or reason is None:
        return []
    return [
        Finding(
            id="variants.architecture",
            severity="block",
            title=f"{build_name(build)} is not compiled for this GPU",
            why=f"{reason}\nThe build {build.variant} fits this torch and CUDA, but that says nothing of the GPU. "
            "Without the check the process ends at the first attention call, without a traceback.",
            origin="asked",
            source="https://github.com/huggingface/kernels/issues/707",
            fixes=other_revisions(situation),
        )
    ]


def _accepted(situation: Situation) -> tuple[KernelBuild | None, KernelMetadata | None]:
    """Return the build that kernels would take, with its metadata."""
    build = situation.build
    return (build, build.metadata) if build and build.variant else (None, None)


def _refusals(decisions: tuple[VariantDecision, ...]) -> list[str]:
    """Return each reason once, with all the variants that it holds for."""
    by_reason: dict[str, list[str]] = {}
    for decision in decisions:
        by_reason.setdefault(decision.reason or "accepted", []).append(decision.variant)
    return [f"{reason}: {', '.join(variants)}" for reason, variants in by_reason.items()]


def _newer_kernels(situation: Situation, needed: str | None) -> tuple[Fix, ...]:
    """Return the fix that installs a newer kernels, if the installed transformers accepts it."""
    libraries = situation.server.libraries
    limit = libraries.kernels_maximum if libraries else None
    if needed is None or (limit and not is_older(read_version(needed), limit)):
        return ()
    return (
        install(situation.server, "Install a newer kernels", f"kernels>={needed}" + (f",<{limit}" if limit else "")),
    )


RULES: tuple[Callable[[Situation], list[Finding]], ...] = (
    no_variant,
    unreadable_metadata,
    missing_depends,
    refused_build,
    wrong_architecture,
)
