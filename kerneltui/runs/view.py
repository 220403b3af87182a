"""What a run looks like from outside: one line of the list of runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from kerneltui.errors import KerneltuiError
from kerneltui.runs.contact import is_here, lost_since, lost_words
from kerneltui.runs.control import watch_over
from kerneltui.runs.directory import ACTIVE, RunDirectory, RunRecord, State
from kerneltui.runs.find import list_runs
from kerneltui.runs.hours import gpu_hours
from kerneltui.runs.notes import read_notes
from kerneltui.runs.view_cache import stamp_of, view_cache
from kerneltui.runs.view_record import RunView
from kerneltui.text import plain_line

# How much of the end of a metrics file is read for its last values, in bytes.
_TAIL = 1 << 16
# How many runs are shown before the others are read.
_FIRST = 40
_TOLD = (b'"alert', b'"run_begin"', b'"run_end"', b'"train_begin"')


def view_runs(runs: Path, *, on_first: Callable[[list[RunView]], None] | None = None) -> list[RunView]:
    """Return the runs of a directory, active ones first, then the one started last first.

    Where there are many, `on_first` is given the newest of them before the others are read.
    """
    found = list_runs(runs)
    views = [view_run(run) for run in found[:_FIRST]]
    if on_first and len(found) > _FIRST:
        on_first(_sorted(views))
    views += [view_run(run) for run in found[_FIRST:]]
    view_cache().save()
    return _sorted(views)


def _sorted(views: list[RunView]) -> list[RunView]:
    return sorted(views, key=lambda view: (view.phase in ACTIVE, _moment(view.started)), reverse=True)


def view_run(run: RunDirectory) -> RunView:
    """Return the view of one run; a record that cannot be read gives a view that says so.

    That of a run that has ended is kept until its state or its notes are written again.
    """
    stamp = stamp_of(run)
    if stamp and (kept := view_cache().get(run, stamp)):
        return kept
    try:
        record, state = run.read_run(), watch_over(run)
    except KerneltuiError as error:
        return RunView(name=run.name, path=str(run.path), problem=str(error))
    view = _view(run, record, state)
    if stamp and state.phase not in ACTIVE:
        view_cache().put(run, stamp, view)
    return view


def _view(run: RunDirectory, record: RunRecord, state: State) -> RunView:
    lines = last_lines(run.metrics)
    lines = [line for line in lines if line.get("attempt") == lines[-1].get("attempt")]
    progress: dict[str, Any] = next((line for line in reversed(lines) if line.get("kind") == "progress"), {})
    losses = [values["loss"] for line in lines if isinstance(values := line.get("values"), dict) and "loss" in values]
    steps = [step for line in lines if isinstance(step := line.get("step"), int)]
    seconds = _number(progress.get("seconds_per_step"))
    away = state.phase in ACTIVE and not is_here(state)
    silent, notes = lost_since(run, state), read_notes(run)
    told = _told(run)
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
        alert=lost_words(state, silent) if silent else _alert(told, state.attempt),
        tags=notes.tags,
        remark=notes.remark,
        gpu_hours=gpu_hours(told, len(record.server.gpus)),
    )


def _told(run: RunDirectory) -> list[dict[str, Any]]:
    """Return the events that a list tells of. They may stand anywhere, so all is looked through."""
    try:
        lines = run.events.read_bytes().split(b"\n")
    except OSError:
        return []
    return list(_objects(line for line in lines if any(name in line for name in _TOLD)))


def _alert(told: Iterable[dict[str, Any]], attempt: int) -> str | None:
    """Return the last alert of an attempt that has not passed."""
    present: dict[str, str] = {}
    for event in told:
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
