"""A disk that will not hold the next checkpoint."""

from __future__ import annotations

from collections.abc import Iterator

from kerneltui.runs.alert import Alert
from kerneltui.runs.health.window import Window
from kerneltui.text import duration, gibibytes

# Below this the record itself is in danger, whatever a checkpoint takes. Bytes.
_LEAST = 1 << 29
_NEXT = "Make room there, or `kerneltui stop RUN` while a checkpoint still fits; save_total_limit keeps that many."


def find(window: Window) -> Iterator[Alert]:
    """Give one alert where the last checkpoint's size does not fit once more, or only once."""
    disk = window.disk
    if disk is None:
        return
    if disk.checkpoint is not None and disk.free < 2 * disk.checkpoint:
        fits = disk.free >= disk.checkpoint
        when = ""
        if disk.next_in is not None:
            seconds = f", about {duration(disk.next_in * window.step_seconds)}" if window.step_seconds else ""
            when = f", in {disk.next_in} steps{seconds}"
        yield Alert(
            id="disk_short" if fits else "disk_full", severity="warn" if fits else "block",
            text=f"{'only one more checkpoint fits' if fits else 'the next checkpoint does not fit'} on the disk{when}",
            why=f"The last one took {gibibytes(disk.checkpoint)}; {gibibytes(disk.free)} are free at {disk.path}.",
            next_step=_NEXT,
        )  # fmt: skip
    elif disk.free < _LEAST:
        yield Alert(
            id="disk_full", severity="block", text=f"the disk is nearly full: {gibibytes(disk.free)} are free",
            why=f"At {disk.path}.", next_step=_NEXT,
        )  # fmt: skip
