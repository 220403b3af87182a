"""What a run looks like from outside: one line of the list of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from kerneltui.errors import KerneltuiError
from kerneltui.records import Record
from kerneltui.runs.control import watch_over
from kerneltui.runs.directory import Phase, RunDirectory, list_runs

# How much of the end of a metrics file is read for its last values, in bytes.
_TAIL = 1 << 16


class RunView(Record):
    """A run in the list. `speed` is in optimizer steps a second; None where nothing was recorded yet.

    `problem` says why the record cannot be read; then only name and path are known.
    """

    name: str
    path: str
    phase: Phase | None = None
    reason: str | None = None
    trainer: str | None = None
    model: str | None = None
    attention: str | None = None
    attempt: int | None = None
    step: int | None = None
    total: int | None = None
    loss: float | None = None
    speed: float | None = None
    started: str | None = None
    ended: str | None = None
    problem: str | None = None


def view_runs(runs: Path) -> list[RunView]:
    """Return the runs of a directory, active ones first, then newest first."""
    views = [view_run(run) for run in list_runs(runs)]
    return sorted(views, key=lambda view: view.phase not in ("running", "starting"))


def view_run(run: RunDirectory) -> RunView:
    """Return the view of one run; a record that cannot be read gives a view that says so."""
    try:
        record, state = run.read_run(), watch_over(run)
    except KerneltuiError as error:
        return RunView(name=run.name, path=str(run.path), problem=str(error))
    lines = last_lines(run.metrics)
    progress = _last(lines, "progress")
    logs = [line for line in lines if line.get("kind") == "log" and "loss" in line.get("values", {})]
    seconds = progress.get("seconds_per_step")
    return RunView(
        name=run.name,
        path=str(run.path),
        phase=state.phase,
        reason=state.reason,
        trainer=record.plan.trainer,
        model=record.will_run.model,
        attention=record.will_run.attention.implementation,
        attempt=state.attempt,
        step=progress.get("step"),
        total=progress.get("total"),
        loss=_number(logs[-1]["values"]["loss"]) if logs else None,
        speed=1 / seconds if seconds else None,
        started=state.started,
        ended=state.ended,
    )


def last_lines(path: Path, size: int = _TAIL) -> list[dict[str, Any]]:
    """Return the JSON objects among the last whole lines of a file, reading at most `size` bytes from its end."""
    try:
        with path.open("rb") as file:
            start = max(0, path.stat().st_size - size)
            file.seek(start)
            lines = file.read().split(b"\n")
    except FileNotFoundError:
        return []
    found = []
    for line in lines[1 if start else 0 : -1]:
        try:
            value = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        if isinstance(value, dict):
            found.append(value)
    return found


def _last(lines: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    return next((line for line in reversed(lines) if line.get("kind") == kind), {})


def _number(value: object) -> float | None:
    """Return a recorded value as a float; NaN and the infinities are written as words (see `worker.record`)."""
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
