"""What a rehearsal found, as findings on the plan."""

from __future__ import annotations

from collections.abc import Iterator

from kerneltui.advice.configuration import fixes_for
from kerneltui.advice.finding import Finding
from kerneltui.advice.situation import Situation
from kerneltui.facts.proof import Check, Raised, Rehearsal
from kerneltui.text import plain_line

REHEARSED = "rehearsal."
"""What the ids of these findings begin with."""

# How a trainer that came to no good end is told.
_TITLES = {
    "raised": "The trainer raised in its rehearsal",
    "exited": "The trainer ended by itself in its rehearsal",
    "crashed": "The trainer crashed in its rehearsal",
    "hung": "The rehearsal did not come to its end",
    "out_of_memory": "There was no memory for a rehearsal",
    "illegal_access": "Code on the GPU broke in the rehearsal",
}
_CHECKS = {
    "loss": "The loss is not finite in the rehearsal",
    "gradients": "The gradients are not finite in the rehearsal",
    "attention": "The model used another attention in its rehearsal",
    "processes": "The rehearsal's processes did not find one another",
}
# Words of a title: a person reads one line.
_LONGEST = 160


def findings_of(situation: Situation, made: Rehearsal) -> tuple[Finding, ...]:
    """Return what blocks by a rehearsal: its end where that was none, else each check that failed."""
    if made.ended != "ok":
        return (_ended(situation, made),)
    return tuple(_failed(situation, made, check) for check in made.checks if check.outcome == "failed")


def _ended(situation: Situation, made: Rehearsal) -> Finding:
    raised = made.raised
    title = f"{_TITLES[made.ended]}: {_first(raised, made.ending)}".removesuffix(": ")
    return Finding(
        id=f"{REHEARSED}{made.ended}",
        severity="block",
        title=title if len(title) <= _LONGEST else f"{title[: _LONGEST - 1]}…",
        why="\n".join(_why(made)),
        origin="observed",
        source=_source(situation, made),
        fixes=fixes_for(situation, raised.message) if raised else (),
    )


def _why(made: Rehearsal) -> Iterator[str]:
    """Give what is known of an end, line by line: all of the message, what it points at, where it was raised."""
    raised = made.raised
    if raised is None:
        yield from filter(None, (made.ending,))
    else:
        yield f"{raised.type}: {raised.message}"
        if raised.field:
            yield f"It names {raised.field}."
        if raised.row:
            yield f"It is row {raised.row} of the data that the trainer refuses."
        if raised.trace:
            yield f"Raised at {raised.trace[-1]}."
    if made.at:
        yield f"That was at: {made.at}."
    if made.ended != "hung":  # a slow machine is no failure
        yield "The same program, with these settings, would fail in training."


def _failed(situation: Situation, made: Rehearsal, check: Check) -> Finding:
    return Finding(
        id=f"{REHEARSED}{check.name}",
        severity="block",
        title=_CHECKS.get(check.name, f"The rehearsal's check of {check.name} failed"),
        why=f"{check.reason}, on a small model of the same class with random weights ({made.model or 'no model'}).",
        origin="observed",
        source=_source(situation, made),
    )


def _first(raised: Raised | None, ending: str | None) -> str:
    if raised is None:
        return ending or ""
    lines = raised.message.splitlines()
    return plain_line(lines[0]) if lines and lines[0].strip() else raised.type


def _source(situation: Situation, made: Rehearsal) -> str:
    return f"a rehearsal of {situation.plan.trainer} here on {made.device}, {made.time[:16].replace('T', ' ')}"
