"""What one attention implementation is worth for a plan on its server: the row of a table, from the findings alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from kerneltui import demo
from kerneltui.advice import known
from kerneltui.advice.finding import Finding, Severity
from kerneltui.advice.rules import judge
from kerneltui.advice.situation import Situation
from kerneltui.facts.attention import AttentionChoice, device_type, resolve_attention
from kerneltui.facts.kernel_records import KernelBuild
from kerneltui.facts.packages import kernels_usable
from kerneltui.facts.server import Libraries
from kerneltui.records import Record

VerdictKind = Literal["ready", "care", "refused", "unknown"]

# What findings about attention are called; others (a missing model, a batch size) say nothing about a kernel.
_ABOUT_ATTENTION = ("attention.", "variants.", "source.", "backward.")
_ALSO = (
    *("packages.kernels", "packages.flash_attention", "device.flash", "device.kernel_on_cpu", "dtype.flash"),
    *("features.head_dim", "features.softcap", "features.sinks", "features.dropout"),
)

# The order in which kernels for training are shown; others of the Hub come after them, by name.
_KERNELS = tuple(
    f"{known.COMMUNITY}/{name}" for name in ("flash-attn2", "flash-attn3", "vllm-flash-attn3", "flash-attn4")
)
_BUILTIN = ("sdpa", "flex_attention", "eager")


class Verdict(Record):
    """What the findings on an attention implementation come to.

    "ready" has no block and no warning, "care" a warning, "refused" a block; "unknown" was not asked about yet.
    `severity` is the worst there is; `ids` and `titles` are those of all findings about attention, the worst first.
    """

    kind: VerdictKind
    reason: str
    severity: Severity | None = None
    ids: tuple[str, ...] = ()
    titles: tuple[str, ...] = ()


def attention_candidates(libraries: Libraries | None, *, embedded: bool = False) -> list[str]:
    """Return the implementations to show, in a fixed order: kernels of the Hub, native names, those not for training.

    `embedded` adds the kernel that comes with kerneltui, for its own model.
    """
    names = libraries.attention_names if libraries else ()
    hub = set(libraries.attention_versions) | set(libraries.attention_fallbacks.values()) if libraries else set()
    unfit = [name for name in known.forward_only() if name in hub or name.startswith(f"{known.COMMUNITY}/")]
    others = sorted(hub - set(_KERNELS) - set(unfit))
    flash = sorted(name for name in names if name.startswith("flash_attention_"))
    builtin = [name for name in _BUILTIN if name in names or not names]
    own = [demo.ATTENTION] if embedded else []
    return [*own, *(name for name in _KERNELS if name in hub), *others, *builtin, *flash, *unfit]


def try_attention(
    situation: Situation,
    asked: str,
    *,
    build: KernelBuild | None = None,
    build_error: tuple[str, str] | None = None,
    trusted: bool | None = None,
) -> Situation:
    """Return the situation of the same plan with another attention and what is known of its kernel; asks nobody.

    `kerneltui.assess.with_attention` asks the Hub.
    """
    libraries = situation.server.libraries
    server = situation.server
    choice = (
        resolve_attention(asked, libraries, situation.model, kernels_usable(server), device_type(server.torch))
        if libraries
        else AttentionChoice(asked=asked, implementation=asked, kind="unknown")
    )
    return msgspec.structs.replace(
        situation,
        settings=situation.settings.with_attention(asked),
        attention=choice,
        build=build,
        build_error=build_error,
        trusted=trusted,
        alternatives=None,
        similar=None,
        preflight=None,
        rehearsal=None,
    )


def verdict_of(situation: Situation, findings: Sequence[Finding] | None = None) -> Verdict:
    """Return what `findings` (those on the situation; None: judged here) come to for its attention."""
    found = attention_findings(judge(situation) if findings is None else findings)
    severity = found[0].severity if found else None
    title = found[0].title if found else _ready(situation)
    kind: VerdictKind = "care" if severity == "warn" else "ready"
    if severity == "block":
        # Why a kernel is not for training says more than that it is not.
        kind, title = "refused", found[0].why if found[0].id == "backward.none" else title
    elif unasked := _unasked(situation):
        kind, title = "unknown", unasked
    return Verdict(
        kind=kind,
        reason=title,
        severity=severity,
        ids=tuple(finding.id for finding in found),
        titles=tuple(finding.title for finding in found),
    )


def attention_findings(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings that are about attention, blocks first."""
    found = [finding for finding in findings if _about_attention(finding)]
    return sorted(found, key=lambda finding: ("block", "warn", "note").index(finding.severity))


def _about_attention(finding: Finding) -> bool:
    if finding.id == "packages.kernels":
        return finding.severity == "block"  # a note where the plan needs no kernel
    return finding.id.startswith(_ABOUT_ATTENTION) or finding.id in _ALSO


def _unasked(situation: Situation) -> str:
    """Return what is still to be asked, an empty string when nothing is."""
    if situation.server.libraries is None:
        return "what transformers makes of it was not asked"
    if situation.attention.kind == "kernel" and situation.build is None and situation.build_error is None:
        there = "local_kernel" in situation.unknown
        return "it comes from a folder on that server" if there else "the Hub was not asked yet"
    return ""


def _ready(situation: Situation) -> str:
    choice, build = situation.attention, situation.build
    if choice.kind == "kernel" and build is not None:
        return f"{choice.revision} · {build.variant}" if build.source == "hub" else f"local · {build.variant}"
    if choice.kind == "package":
        return "its own package is installed"
    return "part of torch and transformers"
