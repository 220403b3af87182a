"""What a run looks like from outside: one line of the list of runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from kerneltui.errors import KerneltuiError
from kerneltui.records import Record
from kerneltui.runs.contact import is_here, lost_since, lost_words
from kerneltui.runs.control import watch_over
from kerneltui.runs.directory import ACTIVE, Phase, RunDirectory, RunRecord, State
from kerneltui.runs.find import list_runs
from kerneltui.text import plain_line

# How much of the end of a metrics file is read for its last values, in bytes.
_TAIL = 1 << 16


class RunView(Record):
    """A run in the list. `speed` is in optimizer steps a second; None where nothing was recorded yet.

    `started` is when training was started, or launched where it never was. `problem` says why the record cannot be
    read; then only name and path are known. `host` is the machine that an active run is on, where that is another
    than this one, and `silent_since` since when nothing was heard from it. `alert` is what a person should know now:
    lost contact, or that something else was loaded than was promised.
    """

    name: str
    path: str
    phase: Phase | None = None
    reason: str | None = None
    way_out: str | None = None
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
    host: str | None = None
    silent_since: str | None = None
    alert: str | None = None


def view_runs(runs: Path) -> list[RunView]:
    """Return the runs of a directory, active ones first, then the one started last first."""
    views = [view_run(run) for run in list_runs(runs)]
    return sorted(views, key=lambda view: (view.phase in ACTIVE, _moment(view.started)), reverse=True)


def view_run(run: RunDirectory) -> RunView:
    """Return the view of one run; a record that cannot be read gives a view that says so."""
    try:
        record, state = run.read_run(), watch_over(run)
    except KerneltuiError as error:
        return RunView(name=run.name, path=str(run.path), problem=str(error))
    return _view(run, record, state)


def _view(run: RunDirectory, record: RunRecord, state: State) -> RunView:
    lines = last_lines(run.metrics)
    lines = [line for line in lines if line.get("attempt") == lines[-1].get("attempt")]
    progress: dict[str, Any] = next((line for line in reversed(lines) if line.get("kind") == "progress"), {})
    losses = [values["loss"] for line in lines if isinstance(values := line.get("values"), dict) and "loss" in values]
    steps = [step for line in lines if isinstance(step := line.get("step"), int)]
    seconds = _number(progress.get("seconds_per_step"))
    away = state.phase in ACTIVE and not is_here(state)
    silent = lost_since(run, state)
    return RunView(
        name=run.name,
        path=str(run.path),
        phase=state.phase,
        reason=state.reason,
        way_out=state.way_out,
        trainer=record.plan.trainer,
        model=record.will_run.model,
        attention=record.will_run.attention.implementation,
        attempt=state.attempt,
        step=max(steps, default=None),
        total=progress.get("total"),
        loss=_number(losses[-1]) if losses else None,
        speed=1 / seconds if seconds else None,
        started=state.started or record.time,
        ended=state.ended,
        host=state.hostname if away else None,
        silent_since=silent.isoformat(timespec="seconds") if silent else None,
        alert=lost_words(state, silent) if silent else _alert(run, state.attempt),
    )


def _alert(run: RunDirectory, attempt: int) -> str | None:
    """Return the last alert of an attempt that has not passed; it may stand anywhere, so all is looked through."""
    try:
        lines = run.events.read_bytes().split(b"\n")
    except OSError:
        return None
    present: dict[object, str] = {}
    for event in _objects(line for line in lines if b'"alert' in line):
        if event.get("attempt") == attempt and event.get("event") in ("alert", "alert_over"):
            present.pop(str(event.get("id")), None)
            if event["event"] == "alert":
                present[str(event.get("id"))] = plain_line(str(event.get("text")))
    return next(reversed(present.values()), None)


def last_lines(path: Path, size: int = _TAIL) -> list[dict[str, Any]]:
    """Return the JSON objects among the last whole lines of a file, reading at most `size` bytes from its end."""
    try:
        with path.open("rb") as file:
            start = max(0, path.stat().st_size - size)
            file.seek(start)
            lines = file.read().split(b"\n")
    except OSError:
        return []
    return list(_objects(lines[1 if start else 0 : -1]))


def _objects(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    for line in lines:
        try:
            value = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        if isinstance(value, dict):
            yield value


def _moment(time: str | None) -> float:
    """Return an ISO 8601 time as seconds; 0 for what is none, so that it comes last."""
    try:
        return datetime.fromisoformat(time).timestamp() if time else 0.0
    except ValueError:
        return 0.0


def _number(value: object) -> float | None:
    """Return a recorded value as a float; NaN and the infinities are written as words (see `worker.record`)."""
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
