"""What came of a rehearsal: how its processes ended, what was raised and where it points, what was computed."""

from __future__ import annotations

import math
import re
import signal
from collections.abc import Iterator
from typing import Any

from kerneltui.advice.situation import Situation
from kerneltui.assess import what_will_run
from kerneltui.facts.proof import Check, Ending, Raised, Rehearsal
from kerneltui.interpreter import ProgressCallback
from kerneltui.prove.rehearsal_plan import generates, processes_of
from kerneltui.runs.directory import RunDirectory
from kerneltui.runs.ending import how_it_ended
from kerneltui.runs.last_words import read_last_words
from kerneltui.runs.loaded import differences
from kerneltui.runs.log import LogTail
from kerneltui.runs.ranks import Ranks
from kerneltui.runs.tail import JsonTail
from kerneltui.runs.training import number
from kerneltui.text import hide_secrets, now, plain, plain_line

# Lines of the log and frames of a traceback that are kept.
_TAIL, _FRAMES = 25, 6
_MEMORY = re.compile(
    r"out of memory|OutOfMemory|MemoryError|CUBLAS_STATUS_ALLOC_FAILED|DefaultCPUAllocator", re.IGNORECASE
)
_BROKEN = re.compile(
    r"illegal memory access|device-side assert|misaligned address|illegal instruction|unspecified launch failure"
)
# Where data is read, prepared and batched; what is raised there may be a row's fault.
_OF_DATA = re.compile(r"data_utils|datasets/|_prepare_dataset|collat|tokenization", re.IGNORECASE)
# Words of messages that are also names of fields, and are hardly meant as such.
_COMMON = ("seed", "debug", "optim", "datasets", "dtype", "packing", "streaming", "config", "tools")


class Heard:
    """Listens to the record of a rehearsal while it is made; `over` when all ranks that started have ended."""

    def __init__(self, run: RunDirectory, steps: int, tell: ProgressCallback) -> None:
        self.events: list[dict[str, Any]] = []
        self.logs: list[dict[str, Any]] = []
        self.at = "importing the training packages"
        self._ranks = Ranks(1)
        self._steps = steps
        self._tell = tell
        self._tails = JsonTail(run.events), JsonTail(run.metrics)

    @property
    def over(self) -> bool:
        """Whether each process has written its last word."""
        return bool(self._ranks.ends()) and not self._ranks.silent()

    def listen(self) -> None:
        """Take in what was written since the last time, and tell where it stands."""
        events, metrics = self._tails[0].read_all(), self._tails[1].read_all()
        self.events += events
        self.logs += [line for line in metrics if line.get("kind") == "log" and isinstance(line.get("values"), dict)]
        for event in events:
            self._ranks.add(event)
        at = self._place()
        if at != self.at:
            self.at = at
            self._tell(at)

    def first(self, name: str) -> dict[str, Any] | None:
        """Return the first event of that name."""
        return next((event for event in self.events if event.get("event") == name), None)

    def values(self, name: str) -> list[float]:
        """Return what the trainer logged under a name, step by step."""
        found = (number(line["values"].get(name)) for line in self.logs if name in line["values"])
        return [math.nan if value is None else value for value in found]

    def _place(self) -> str:
        names = {event.get("event") for event in self.events}
        if "train_end" in names:
            return "ending"
        if "train_begin" in names:
            return f"step {min(self._steps, len(self.values('loss')) + 1)} of {self._steps}"
        return "building the trainer" if "process_start" in names else self.at


def judged(situation: Situation, run: RunDirectory, heard: Heard, code: int | None, *, hung: float | None) -> Rehearsal:
    """Return the record of a rehearsal whose processes are gone; `hung` are the seconds after which it was ended."""
    raised = _raised(situation, heard)
    ended, words = _ending(run, heard, code, raised, hung)
    begin = heard.first("train_begin") or {}
    checks = tuple(_checks(situation, heard, begin)) if begin else ()
    tail = hide_secrets("\n".join(LogTail(run.output(1)).poll().lines[-_TAIL:]))
    wrong = ended != "ok" or any(check.outcome == "failed" for check in checks)
    return Rehearsal(
        time=now(),
        seconds=0.0,
        ended=ended,
        ending=words,
        at=None if ended == "ok" else heard.at,
        tail=tail if wrong else None,
        device=str(begin.get("device") or ("cpu" if situation.on_gpu is False else "the plan's GPU")),
        steps=len(heard.values("loss")),
        raised=raised if ended != "ok" else None,
        warnings=tuple(_warnings(heard)),
        attention=begin.get("attention"),
        kernels=tuple(kernel for kernel in begin.get("kernels") or () if isinstance(kernel, dict)),
        losses=_finite(heard.values("loss")),
        gradient_norms=_finite(heard.values("grad_norm")),
        processes=int(begin.get("world_size") or 1),
        planned=situation.processes,
        checks=checks,
    )


def _ending(
    run: RunDirectory, heard: Heard, code: int | None, raised: Raised | None, hung: float | None
) -> tuple[Ending, str | None]:
    """Return how the processes ended, and in words."""
    if hung is not None:
        return "hung", f"not done after {hung:.0f} s; it was ended"
    if raised is not None:
        text = f"{raised.type}: {raised.message}"
        if _MEMORY.search(text):
            return "out_of_memory", raised.type
        if _BROKEN.search(text):
            return "illegal_access", raised.type
        return ("exited" if raised.type == "SystemExit" else "raised"), raised.type
    if not code and (heard.over or code == 0):
        return "ok", None
    phase, reason, *_ = how_it_ended(run, 1, code, killed=False)
    struck = [
        found.signal
        for found in read_last_words(run.output(1)).casualties
        if found.signal not in (None, signal.SIGTERM)
    ]
    crashed = phase == "killed" or bool(struck)
    return ("crashed" if crashed else "exited"), reason


def _raised(situation: Situation, heard: Heard) -> Raised | None:
    """Return what the first process that failed has raised."""
    ends = (event for event in heard.events if event.get("event") == "process_end" and event.get("outcome") == "failed")
    error = next((event["error"] for event in ends if isinstance(event.get("error"), dict)), None)
    if error is None:
        return None
    kind, message, trace = (plain(str(error.get(name) or "")) for name in ("type", "message", "traceback"))
    return Raised(
        type=kind,
        message=hide_secrets(message).strip(),
        field=pointed_field(situation, message),
        row=_row(situation, trace),
        trace=tuple(hide_secrets(line) for line in frames(trace)),
    )


def pointed_field(situation: Situation, message: str) -> str | None:
    """Return the field of the plan that a message names, the one that the person set before others."""
    values, given = situation.settings.values, set(situation.settings.given)
    split = message.strip().strip("'")  # all that a KeyError says of a split that is not there
    if found := next((name for name, value in values.items() if name.endswith("_split") and value == split), None):
        return found
    words = [word for word in re.findall(r"[A-Za-z_]\w+", message) if word in values]
    # In quotes, or as a flag.
    quoted = set(re.findall(r"(?:[`'\"]|--)([A-Za-z_]\w*)", message))
    named = [word for word in words if word in quoted or (word not in _COMMON and ("_" in word or word in given))]
    # Or in plain words: "Label smoothing must be greater than 0.0".
    told = message.lower().replace(" ", "_")
    named += [name for name in values if name.count("_") == 1 and re.search(rf"(?<![a-z]){name}(?![a-z])", told)]
    return next((word for word in named if word in given), named[0] if named else None)


def _row(situation: Situation, trace: str) -> int | None:
    """Return the row that the trainer refuses when it is asked alone, where the error came from the data."""
    data = situation.data
    return data.refused.row if data and data.refused and _OF_DATA.search(trace) else None


def frames(trace: str) -> list[str]:
    """Return the last frames of a traceback, each with its file from the package on, its line and its function."""
    found = re.findall(r'File "([^"]+)", line (\d+), in (.+)', trace)
    return [f"{_short(path)}:{line} {plain_line(name)}" for path, line, name in found][-_FRAMES:]


def _short(path: str) -> str:
    return path.rpartition("site-packages/")[2]


def _warnings(heard: Heard) -> Iterator[str]:
    for event in heard.events:
        if event.get("event") == "warning":
            kind = str(event.get("kind"))
            told = f"{kind}: " if kind.endswith("Warning") else ""
            yield hide_secrets(plain_line(f"{told}{event.get('message')}"))


def _finite(values: list[float]) -> tuple[float | None, ...]:
    return tuple(value if math.isfinite(value) else None for value in values)


def _checks(situation: Situation, heard: Heard, begin: dict[str, Any]) -> Iterator[Check]:
    """Look at what was computed, and at what the model used."""
    losses, norms = heard.values("loss"), heard.values("grad_norm")
    case = f"{len(losses)} steps" if len(losses) != 1 else "1 step"
    yield _check("loss", case, _not_finite(losses) if losses else "no step was made")
    if unjudged := _unjudged(situation, norms):
        yield Check(name="gradients", case=case, outcome="skipped", reason=unjudged)
    else:
        still = "they are zero: nothing would be learned" if not any(norms) else None
        yield _check("gradients", case, _not_finite(norms) or still)
    alerts = differences(what_will_run(situation).attention, begin, guessed=situation.server.libraries is None)
    yield _check("attention", "read back", "; ".join(alert.text for alert in alerts if alert.severity == "block"))
    wanted, started = processes_of(situation), int(begin.get("world_size") or 1)
    if wanted > 1 or started > 1:
        alone = f"{started} of {wanted} processes found one another (WORLD_SIZE)" if started != wanted else None
        yield _check("processes", str(wanted), alone)


def _check(name: str, case: str, wrong: str | None) -> Check:
    return Check(name=name, case=case, outcome="failed" if wrong else "passed", reason=wrong or None)


def _unjudged(situation: Situation, norms: list[float]) -> str | None:
    """Return why the gradients say nothing, None where they do."""
    if not norms:
        return "not logged"
    if generates(situation) and not any(norms):
        return "they are zero: random weights answer all alike, so no answer is better than another"
    # float16 begins with a scale that is too large, and finds the right one in the first steps.
    scaled = situation.settings.get("fp16") and _not_finite(norms)
    return "float16 still looks for its scale" if scaled else None


def _not_finite(values: list[float]) -> str | None:
    """Return the first value that is not finite, and at which step; None where all are."""
    wrong = ((step, value) for step, value in enumerate(values, 1) if not math.isfinite(value))
    return next((f"{value} at step {step}" for step, value in wrong), None)
