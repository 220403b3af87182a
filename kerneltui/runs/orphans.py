"""What runs that have ended have left running on this machine: it may hold GPUs. Only processes of this user's runs."""

from __future__ import annotations

import contextlib
from pathlib import Path

import psutil

from kerneltui.errors import KerneltuiError
from kerneltui.records import Record
from kerneltui.runs.directory import ACTIVE, RunDirectory
from kerneltui.runs.processes import MARK


class Orphans(Record):
    """The living processes of a run that has ended, or whose directory is gone; `path` is the run's."""

    path: str
    pids: tuple[int, ...]


def find_orphans() -> list[Orphans]:
    """Return the orphans of all runs of this user, by the mark that every process of a run inherits."""
    found: dict[str, list[int]] = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            path = process.environ().get(MARK)
            if path and process.status() != psutil.STATUS_ZOMBIE:
                found.setdefault(path, []).append(process.pid)
    return [Orphans(path=path, pids=tuple(pids)) for path, pids in sorted(found.items()) if _has_ended(path)]


def _has_ended(path: str) -> bool:
    try:
        return RunDirectory(Path(path)).read_state().phase not in ACTIVE
    except KerneltuiError:
        return not Path(path).exists()
