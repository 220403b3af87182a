"""What a run looks like from outside, as a record."""

from __future__ import annotations

from kerneltui.records import Record
from kerneltui.runs.directory import Phase


class RunView(Record):
    """A run in the list. `speed` is in optimizer steps a second; None where nothing was recorded yet.

    `started` is when training was started, or launched where it never was. `problem` says why the record cannot be
    read; then only name and path are known. `host` is the machine that an active run is on, where that is another
    than this one, and `silent_since` since when nothing was heard from it. `alert` is what a person should know now:
    lost contact, or the last alert that holds. `tags` and `remark` are the person's; `gpu_hours` counts all attempts,
    None for a run on the CPU or where it is not known.
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
    tags: tuple[str, ...] = ()
    remark: str = ""
    gpu_hours: float | None = None
