"""What was tried on this machine: a preflight of the plan's attention that was kept, a rehearsal of its trainer."""

from __future__ import annotations

from collections.abc import Callable

from kerneltui.advice.finding import Finding
from kerneltui.advice.fixes import use_native
from kerneltui.advice.rehearsed import REHEARSED, findings_of
from kerneltui.advice.situation import Situation
from kerneltui.facts.proof import Ending, Preflight

_PREFLIGHT = "attention.preflight"

_ENDS: dict[Ending, str] = {
    "ok": "gave wrong results or raised",
    "raised": "could not be loaded",
    "crashed": "killed its process",
    "exited": "ended its process",
    "hung": "hung",
    "illegal_access": "broke the GPU's context",
}
# Kinds of failures that are named; the preflight has them all.
_NAMED = 4


def was_tried(finding: Finding) -> bool:
    """Return whether a finding tells what failed in a trial: a person may go past it after a question."""
    return finding.id == _PREFLIGHT or finding.id.startswith(REHEARSED)


def failed_preflight(situation: Situation) -> list[Finding]:
    """The attention failed where it was tried with this commit, card, driver, torch and these shapes."""
    made = situation.preflight
    if made is None or made.passed or made.ended not in _ENDS:
        return []
    return [
        Finding(
            id=_PREFLIGHT,
            severity="block",
            title=f"{situation.attention.implementation} {_ENDS[made.ended]} when it was tried on this machine",
            why=" ".join(_why(made)) + " `kerneltui prove --again` tries it anew.",
            origin="observed",
            source=f"preflight of {made.time[:16].replace('T', ' ')} on {made.subject.device}",
            fixes=() if made.subject.implementation in ("sdpa", "eager") else (use_native(situation),),
        )
    ]


def _why(made: Preflight) -> list[str]:
    if made.ended != "ok":
        return [f"{part}." for part in (made.ending, made.at and f"It was at {made.at}") if part]
    reasons = dict.fromkeys(
        f"{check.name}: {check.reason}" + (f" (not without {' or without '.join(check.only)})" if check.only else "")
        for check in made.failed
    )
    return [f"{reason}." for reason in list(reasons)[:_NAMED]]


def failed_rehearsal(situation: Situation) -> list[Finding]:
    """The trainer failed where it was tried with this plan."""
    return list(findings_of(situation, situation.rehearsal)) if situation.rehearsal else []


RULES: tuple[Callable[[Situation], list[Finding]], ...] = (failed_preflight, failed_rehearsal)
