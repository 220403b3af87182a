"""A proof in plain lines: what was tried, with its figures, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable

from kerneltui.advice.finding import SIGNS
from kerneltui.advice.memory.room import gib
from kerneltui.facts.proof import Check, Ending, MeasuredMemory, Preflight, Proof, Rehearsal, Speed, Trial
from kerneltui.show import table_lines
from kerneltui.text import duration, plain, plain_line

_MARKS = {"passed": SIGNS["ready"], "failed": SIGNS["block"], "skipped": SIGNS["note"]}
_ENDS: dict[Ending, str] = {
    "ok": "came to its end",
    "raised": "raised",
    "crashed": "was killed by the kernel",
    "exited": "was ended by the kernel",
    "hung": "hung, and was ended",
    "out_of_memory": "found no memory on the card",
    "illegal_access": "broke the GPU's context",
}
# In a rehearsal there is more than the kernel that may have ended it.
_TRAINING_ENDS: dict[Ending, str] = {**_ENDS, "crashed": "crashed", "exited": "ended before its steps were made"}


def proof_lines(proof: Proof, *, width: int | None = None) -> list[str]:
    """Return all of a proof: each part with its verdict, its table (cut at `width`) and its reasons."""
    blocks = [preflight_lines(proof.preflight, width=width)] if proof.preflight else []
    blocks += [rehearsal_lines(proof.rehearsal)] if proof.rehearsal else []
    blocks += [measured_lines(proof.memory)] if proof.memory else []
    blocks += [[f"{SIGNS['note']} No {part}: {plain_line(why)}"] for part, why in proof.unmade.items()]
    return [line for number, block in enumerate(blocks) for line in ([""] if number else []) + block]


def preflight_lines(made: Preflight, *, width: int | None = None) -> list[str]:
    """Return a preflight: the verdict, a table of the cases, why what failed did, and the speed beside others'."""
    return [
        preflight_verdict(made),
        *_indented(case_lines(made.checks, width=width)),
        *_indented(failure_lines(made.checks)),
        *_indented(speed_lines(made.speed, made.speed_case, width=width)),
        *([f"  {line}" for line in plain(made.tail).splitlines()] if made.tail else []),
    ]


def preflight_verdict(made: Preflight) -> str:
    """Return what came of a preflight, in a line."""
    subject = made.subject
    what = " ".join(filter(None, (subject.implementation, subject.variant and f"({subject.variant})")))
    when = f"kept from {made.time[:16].replace('T', ' ')}" if made.cached else f"in {duration(made.seconds)}"
    sign = SIGNS["ready"] if made.passed else SIGNS["block"]
    return plain_line(f"{sign} Preflight of {what} on {subject.device}: {_came_of(made)}, {when}")


def rehearsal_lines(made: Rehearsal) -> list[str]:
    """Return a rehearsal: the verdict, what each step gave, what was raised, warned of, and left out."""
    raised = made.raised
    words = [
        *(f"{raised.type}: {raised.message}".splitlines() if raised else []),
        *([f"It points at {raised.field}."] if raised and raised.field else []),
        *([f"It points at row {raised.row} of the data."] if raised and raised.row is not None else []),
        *([f"Raised at {raised.trace[-1]}."] if raised and raised.trace else []),
        *(_check_line(check) for check in made.checks if check.outcome != "passed"),
        *(f"{SIGNS['warn']} {warning}" for warning in made.warnings),
        *(f"{SIGNS['note']} not tried: {what}" for what in made.untried),
        *([] if raised else (made.tail or "").splitlines()),
    ]
    return [rehearsal_verdict(made), *(f"  {plain_line(line)}" for line in words)]


def measured_lines(made: MeasuredMemory) -> list[str]:
    """Return what a step was measured to take, or how it ended instead."""
    if not made.passed:
        tail = [f"  {plain_line(line)}" for line in (made.tail or "").splitlines()]
        return [plain_line(f"{SIGNS['block']} Memory of a step on {made.device}: it {end_words(made)}"), *tail]
    total = "" if made.total is None else f" of {gib(made.total)}"
    peak, reserved = ("not told" if it is None else gib(it) for it in (made.peak, made.reserved))
    words = f"{peak} GiB allocated at its highest, {reserved} reserved{total}, in {duration(made.seconds)}"
    return [plain_line(f"{SIGNS['ready']} Memory of a step at full shape on {made.device}: {words}")]


def rehearsal_verdict(made: Rehearsal) -> str:
    """Return what came of a rehearsal, in a line."""
    sign = SIGNS["ready"] if made.passed else SIGNS["block"]
    several = f" in {made.processes} processes" if made.processes > 1 else ""
    what = f"{made.steps} step{'' if made.steps == 1 else 's'}{several}"
    if made.attention:
        what += f", attention {made.attention}"
    losses = [loss for loss in made.losses if loss is not None]
    if losses:
        what += f", loss {losses[-1]:.4g}"
    if made.ended != "ok":
        what = f"it {end_words(made)}"
    model = f" on {made.model}" if made.model else ""
    return plain_line(f"{sign} Rehearsal{model}: {what}, in {duration(made.seconds)}")


def _check_line(check: Check) -> str:
    return f"{_MARKS[check.outcome]} {check.name}: {check.reason}"


def _came_of(made: Preflight) -> str:
    if made.ended != "ok":
        return f"it {end_words(made)}"
    if made.failed:
        return f"{len(made.failed)} of {len(made.checks)} checks failed"
    return f"{sum(check.outcome == 'passed' for check in made.checks)} checks passed"


def end_words(trial: Trial) -> str:
    """Return how a trial's process ended: "was killed by the kernel (signal 11) at dense 65, …"."""
    more = f" ({trial.ending})" if trial.ending else ""
    ends = _TRAINING_ENDS if isinstance(trial, Rehearsal) else _ENDS
    return ends[trial.ended] + more + (f" at {trial.at}" if trial.at else "")


def case_lines(checks: Iterable[Check], *, width: int | None = None) -> list[str]:
    """Return a table with a row for each case: how far output and gradients are from the reference.

    Of the gradients it is the farthest; beside each is what sdpa reaches (eager where sdpa cannot compute it).
    """
    cases: dict[str, dict[str, Check]] = {}
    for check in checks:
        cases.setdefault(check.case, {})[check.name] = check
    rows = [
        (_mark(found), *_figures(found, "forward"), *_figures(found, "gradient"), at) for at, found in cases.items()
    ]
    headings = ("", "output", "beside", "gradients", "beside", "case")
    return table_lines(headings, rows, right="output beside gradients", width=width) if rows else []


def _mark(checks: dict[str, Check]) -> str:
    outcomes = {check.outcome for check in checks.values()}
    return _MARKS[next(it for it in ("failed", "skipped", "passed") if it in outcomes)]


def _figures(checks: dict[str, Check], name: str) -> tuple[str | None, str | None]:
    """Return the farthest error of a kind, and the baseline's."""
    found = [check.figures for at, check in checks.items() if at.partition(".")[0] == name]
    return _farthest(found, "error"), _farthest(found, "baseline")


def _farthest(figures: list[dict[str, float]], key: str) -> str | None:
    values = [it[key] for it in figures if key in it]
    return f"{max(values):.1e}" if values else None


def failure_lines(checks: Iterable[Check]) -> list[str]:
    """Return a line for each kind of failure and each thing that could not be tried, with the number of cases."""
    found: dict[tuple[str, str], list[Check]] = {}
    for check in checks:
        if check.outcome != "passed":
            found.setdefault((check.name, check.reason or ""), []).append(check)
    return [_failure(*group) for group in found.values()]


def _failure(first: Check, *more: Check) -> str:
    only = f"; not without {' or without '.join(first.only)}" if first.only else ""
    cases = f" (and {len(more)} other case{'s' if len(more) > 1 else ''})" if more else ""
    return plain_line(f"{_MARKS[first.outcome]} {first.name}: {first.reason}{only}: {first.case}{cases}")


def speed_lines(speed: Iterable[Speed], case: str | None, *, width: int | None = None) -> list[str]:
    """Return a table of milliseconds for a forward and a backward pass of each implementation."""
    rows = [(it.implementation, _time(it.forward), _time(it.backward), it.reason or "") for it in speed]
    if not rows:
        return []
    table = table_lines(("", "forward ms", "backward ms", " "), rows, right="forward ms backward ms", width=width)
    return [f"Speed, {case}", *table]


def _time(value: float | None) -> str | None:
    return None if value is None else f"{value:.3g}"


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" for line in lines]
