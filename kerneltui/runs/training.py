"""What a run has recorded of its training, gathered line by line: steps, speed, metrics, checkpoints, what loaded."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kerneltui.advice.finding import Severity
from kerneltui.runs.alert import alert_words
from kerneltui.runs.series import Points, Series
from kerneltui.text import plain_line

# How many progress lines (at least a second apart) tell the present speed, and how many log lines the tokens a second.
_RECENT = 30
_NOTICES = 50
# Of the values that a trainer logs: counters and what it says once at its end; none of them is a curve.
_COUNTERS = ("epoch", "num_tokens", "total_flos", "num_input_tokens_seen")
_SUMMARY = "train_"
_EVALUATION = "eval_"
# Besides the loss an evaluation logs how long it took.
_NO_CURVE = ("_runtime", "_per_second", "_num_tokens", "_model_preparation_time")


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that was written: at which step, where, when."""

    step: int
    path: str
    time: datetime


@dataclass(frozen=True)
class Loaded:
    """A kernel that the training process had loaded. `commit` is "local" for one that came through LOCAL_KERNELS."""

    repository: str
    revision: str | None
    commit: str | None
    variant: str | None

    def __str__(self) -> str:
        revision = f"@{self.revision}" if self.revision else ""
        commit = f" · {self.commit[:8]}" if self.commit else ""
        return f"{self.repository}{revision}{commit}"


@dataclass(frozen=True)
class Notice:
    """Something that happened to a run: the name of the event, and a line for a person; `severity` as a finding's.

    `id` is that of an alert.
    """

    time: datetime | None
    event: str
    severity: Severity
    text: str
    id: str | None = None


class Training:
    """Gathers the lines of `metrics.jsonl` and `events.jsonl`. Lines that do not fit are left out.

    Of two attempts the later counts: `step`, speed and stage are those of the latest attempt seen.
    """

    def __init__(self) -> None:
        self.attempt = 0
        self.step: int | None = None
        self.total: int | None = None
        self.epoch: float | None = None
        self.begin: dict[str, Any] | None = None
        self.output_dir: str | None = None
        self.save_steps: int | None = None
        self.kernels: tuple[Loaded, ...] = ()
        self.checkpoint: Checkpoint | None = None
        self.summary: dict[str, float] = {}
        self.heard: datetime | None = None
        self.milestones: dict[str, datetime | None] = {}
        self.notices: deque[Notice] = deque(maxlen=_NOTICES)
        self._series: dict[str, Series] = {}
        self._progress: deque[tuple[datetime, int, float]] = deque(maxlen=_RECENT)
        self._tokens: deque[tuple[datetime, float]] = deque(maxlen=_RECENT)

    def add_metrics(self, line: dict[str, Any]) -> None:
        """Take in a line of `metrics.jsonl`."""
        step, time, values = _whole(line.get("step")), parse_time(line.get("time")), line.get("values")
        if step is None:
            return
        latest = self._is_latest(line)
        if isinstance(values, dict):
            self._add_values(step, attempt_of(line), values)
        if not latest:
            return
        self._hear(time)
        self.step = step
        self.epoch = number(line.get("epoch")) if line.get("epoch") is not None else self.epoch
        if line.get("kind") == "progress":
            self.total = _whole(line.get("total")) or self.total
            seconds = number(line.get("seconds_per_step"))
            if time and seconds is not None and math.isfinite(seconds):
                self._progress.append((time, step, seconds))
        elif isinstance(values, dict):
            self._add_latest(time, values)

    def add_event(self, line: dict[str, Any]) -> None:
        """Take in a line of `events.jsonl`."""
        if not self._is_latest(line):
            return
        time, name = parse_time(line.get("time")), str(line.get("event"))
        self._hear(time)
        self.milestones.setdefault(name, time)
        step = _whole(line.get("step"))
        if name == "train_begin":
            self.step = step if self.step is None else max(self.step, step or 0)
            self.total = _whole(line.get("total")) or self.total
            self.save_steps = _whole(line.get("save_steps"))
            self.begin = line
            self.output_dir = _text(line.get("output_dir"))
        elif name == "checkpoint" and step is not None and time:
            self.checkpoint = Checkpoint(step, _text(line.get("path")) or "", time)
        if name in ("train_begin", "train_end") and isinstance(kernels := line.get("kernels"), list):
            self.kernels = tuple(_loaded(kernel) for kernel in kernels if isinstance(kernel, dict))
        if name == "alert_over":
            kept = [notice for notice in self.notices if notice.id is None or notice.id != line.get("id")]
            self.notices = deque(kept, maxlen=_NOTICES)
        if text := _notice(name, line):
            self.notices.append(Notice(time, name, *text, _text(line.get("id"))))

    def series(self) -> tuple[dict[str, Points], dict[str, Points]]:
        """Return the curves of training and those of evaluation (without "eval_"), by name as first logged."""
        training, evaluation = {}, {}
        for name, series in self._series.items():
            if name.startswith(_EVALUATION):
                evaluation[name.removeprefix(_EVALUATION)] = series.snapshot()
            else:
                training[name] = series.snapshot()
        return training, evaluation

    def seconds_per_step(self) -> float | None:
        """Return how long an optimizer step takes of late, pauses for evaluation and checkpoints included."""
        if not self._progress:
            return None
        (first, start, seconds), (last, step, _) = self._progress[0], self._progress[-1]
        passed = (last - first).total_seconds()  # less than nothing where the clock was set back
        return passed / (step - start) if step > start and passed > 0 else seconds

    def last_progress(self) -> datetime | None:
        """Return when the last progress line was written."""
        return self._progress[-1][0] if self._progress else None

    def tokens_per_second(self) -> float | None:
        """Return the tokens a second of late, of all processes; None where the trainer does not log `num_tokens`."""
        if len(self._tokens) < 2:
            return None
        (first, before), (last, after) = self._tokens[0], self._tokens[-1]
        seconds = (last - first).total_seconds()
        return (after - before) / seconds if seconds > 0 and after > before else None

    def _add_values(self, step: int, attempt: int, values: dict[str, Any]) -> None:
        for raw, value in values.items():
            name, found = plain_line(raw), number(value)
            if found is None or not name or name in _COUNTERS or name.startswith(_SUMMARY) or name.endswith(_NO_CURVE):
                continue
            self._series.setdefault(name, Series()).add(step, found, attempt=attempt)

    def _add_latest(self, time: datetime | None, values: dict[str, Any]) -> None:
        tokens = number(values.get("num_tokens"))
        if tokens is not None and time:
            self._tokens.append((time, tokens))
        for name, value in values.items():
            if name.startswith(_SUMMARY) and (found := number(value)) is not None:
                self.summary[plain_line(name)] = found

    def _is_latest(self, line: dict[str, Any]) -> bool:
        """Return whether a line belongs to the latest attempt; a later one than before starts anew."""
        attempt = attempt_of(line)
        if attempt > self.attempt:
            self.attempt = attempt
            self.step = self.total = None
            self.begin, self.kernels, self.summary = None, (), {}
            self.notices.clear()
            self.milestones = {}
            self._progress.clear()
            self._tokens.clear()
        return attempt == self.attempt

    def _hear(self, time: datetime | None) -> None:
        if time and (self.heard is None or time > self.heard):
            self.heard = time


def attempt_of(line: dict[str, Any]) -> int:
    """Return the attempt that a recorded line belongs to; they count from 1."""
    return _whole(line.get("attempt")) or 1


def parse_time(value: object) -> datetime | None:
    """Return an ISO 8601 time with its zone, None for what is none."""
    try:
        return datetime.fromisoformat(str(value)).astimezone()
    except (ValueError, OverflowError):
        return None


def number(value: object) -> float | None:
    """Return a recorded value as a float; "NaN", "Infinity" and "-Infinity" stand for themselves (see the README)."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value) if not isinstance(value, str) or value in ("NaN", "Infinity", "-Infinity") else None
    except OverflowError:
        return None


def _whole(value: object) -> int | None:
    fits = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 62
    return value if fits else None  # type: ignore[return-value]


def _text(value: object) -> str | None:
    return plain_line(value) if isinstance(value, str) else None


def _loaded(kernel: dict[str, Any]) -> Loaded:
    return Loaded(
        _text(kernel.get("repository")) or _text(kernel.get("name")) or "a kernel",
        _text(kernel.get("revision")),
        _text(kernel.get("commit")),
        _text(kernel.get("variant")),
    )


def _notice(name: str, line: dict[str, Any]) -> tuple[Severity, str] | None:
    """Return severity and words of an event that a person wants to read."""
    step = line.get("step")
    match name:
        case "checkpoint":
            return "note", f"checkpoint at step {step}"
        case "request":
            return "note", f"{plain_line(str(line.get('action')))} carried out at step {step}"
        case "kill":
            return "warn", "ending all processes, as asked"
        case "kill_failed":
            return "block", f"these processes could not be ended: {line.get('pids')}"
        case "left_running":
            return "block", f"these processes of the run still live: {line.get('pids')}"
        case "alert":
            return ("block" if line.get("severity") == "block" else "warn"), plain_line(alert_words(line))
        case "recorder_failed" if isinstance(error := line.get("error"), dict):
            words = f"{error.get('type')}: {error.get('message')}"
            return "warn", plain_line(f"the record has gaps ({words}); training goes on")
        case "process_end" if isinstance(error := line.get("error"), dict) and line.get("outcome") == "failed":
            return "block", plain_line(f"{error.get('type')}: {error.get('message')}")
    return None
