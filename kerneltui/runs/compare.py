"""Two or more runs side by side: what differs in what was asked, in what ran, and what came of it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kerneltui.errors import KerneltuiError
from kerneltui.plan.plan import parse_config
from kerneltui.plan.secrets import hide
from kerneltui.records import Record
from kerneltui.runs.directory import RunDirectory, RunRecord, read_lines
from kerneltui.runs.view import view_run
from kerneltui.runs.view_record import RunView
from kerneltui.text import gibibytes, plain_line


class Row(Record):
    """One thing, with its value in each run as text; None where a run has none."""

    subject: str
    values: tuple[str | None, ...]


class Comparison(Record):
    """What differs between runs, by part ("asked", "ran"), and what came of each; `same` counts what does not."""

    names: tuple[str, ...]
    asked: tuple[Row, ...]
    ran: tuple[Row, ...]
    results: tuple[Row, ...]
    same: int


def compare(runs: Sequence[RunDirectory]) -> Comparison:
    """Return the comparison of runs. Raises RecordError where a record cannot be read."""
    records = [run.read_run() for run in runs]
    views = [view_run(run) for run in runs]
    ends = [_last_end(run) for run in runs]
    asked, ran = ([dict(part(record)) for record in records] for part in (_asked, _ran))
    differing = [_differences(part) for part in (asked, ran)]
    return Comparison(
        names=tuple(run.name for run in runs),
        asked=differing[0][0],
        ran=differing[1][0],
        results=tuple(_results(views, ends)),
        same=differing[0][1] + differing[1][1],
    )


def _asked(record: RunRecord) -> Iterator[tuple[str, str]]:
    """Give the settings as they were written: of the configuration, then those of the flags, which override it."""
    yield "trainer", record.plan.trainer
    try:
        written = parse_config(record.plan.config, "the configuration") if record.plan.config else {}
    except KerneltuiError:
        written = {}
    yield from ((name, _text(value)) for name, value in hide(written).items())
    flags = record.plan.flags
    for place, flag in enumerate(flags):
        if flag.startswith("--"):
            name, equals, value = flag.removeprefix("--").partition("=")
            rest = flags[place + 1 :]
            following = rest[: next((at for at, word in enumerate(rest) if word.startswith("--")), len(rest))]
            yield name, value if equals else " ".join(following) or "true"
    yield "GPUs", ", ".join(map(str, record.plan.launch.gpus or ())) or "as the shell shows them"
    for name, value in record.plan.launch.environment.items():
        yield name, value


def _ran(record: RunRecord) -> Iterator[tuple[str, str | None]]:
    attention, server = record.will_run.attention, record.server
    yield "attention", attention.implementation
    yield "kernel commit", attention.commit
    yield "kernel build", attention.variant
    yield "weights", record.will_run.dtype
    yield from sorted(record.will_run.packages.items())
    yield "host", server.hostname
    yield "cards", ", ".join(dict.fromkeys(gpu.name or "GPU" for gpu in server.gpus)) or None
    yield "driver", server.driver
    yield "kerneltui", record.kerneltui


def _differences(parts: Sequence[Mapping[str, str | None]]) -> tuple[tuple[Row, ...], int]:
    """Return the rows whose values are not all the same, the first run's first, and the number of the others."""
    names = list(dict.fromkeys(name for part in parts for name in part))
    rows = [Row(subject=plain_line(name), values=tuple(_line(part.get(name)) for part in parts)) for name in names]
    differing = tuple(row for row in rows if len(set(row.values)) > 1)
    return differing, len(rows) - len(differing)


def _results(views: Sequence[RunView], ends: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    told: dict[str, list[str | None]] = {
        "state": [view.phase for view in views],
        "step": [None if view.step is None else f"{view.step}/{view.total}" if view.total else str(view.step)
                 for view in views],
        "loss": [None if view.loss is None else f"{view.loss:.4g}" for view in views],
        "steps/s": [None if view.speed is None else f"{view.speed:.3g}" for view in views],
        "tokens": [_count(end.get("num_tokens")) for end in ends],
        "peak memory": [gibibytes(peak) if isinstance(peak := end.get("memory_peak"), int) else None for end in ends],
        "GPU hours": [None if view.gpu_hours is None else f"{view.gpu_hours:.2f}" for view in views],
        "attempts": [None if view.attempt is None else str(view.attempt) for view in views],
    }  # fmt: skip
    for subject, values in told.items():
        if any(value is not None for value in values):
            yield Row(subject=subject, values=tuple(values))


def _last_end(run: RunDirectory) -> Mapping[str, Any]:
    """Return what the last end of training recorded, and the tokens of the last log line that counts them."""
    found: dict[str, Any] = {}
    for line in read_lines(run.metrics):
        values = line.get("values")
        if isinstance(values, dict) and "num_tokens" in values:
            found["num_tokens"] = values["num_tokens"]
    for event in read_lines(run.events):
        if event.get("event") == "train_end" and event.get("memory_peak"):
            found["memory_peak"] = event["memory_peak"]
    return found


def _count(value: object) -> str | None:
    return f"{value:,.0f}".replace(",", " ") if isinstance(value, int | float) else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else shlex.join(map(str, value)) if isinstance(value, list) else str(value)


def _line(value: str | None) -> str | None:
    return None if value is None else plain_line(value)
