"""Views of runs that have ended, kept between looks: a history of hundreds must not be read anew every two seconds."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

from kerneltui import __version__
from kerneltui.errors import KerneltuiError
from kerneltui.paths import cache_directory, write_atomically
from kerneltui.records import Document, Record, read_record, to_json
from kerneltui.runs.directory import RunDirectory
from kerneltui.runs.view_record import RunView

# How many views are kept in the file.
_LIMIT = 5000

Stamp = tuple[int, ...]


class Kept(Record):
    """A view, and when the files that it was made from were written."""

    stamp: Stamp
    view: RunView


class KeptViews(Document):
    """The file: views by the path of their run, made by one version of kerneltui."""

    kerneltui: str
    views: dict[str, Kept] = {}


class ViewCache:
    """Views by run. A view that is given was made from the very files that are there. Safe for several threads."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._views: dict[str, Kept] | None = None
        self._changed = False
        self._lock = threading.Lock()

    def get(self, run: RunDirectory, stamp: Stamp) -> RunView | None:
        """Return the kept view of a run, None where there is none or it is an older one."""
        with self._lock:
            if self._views is None:
                self._views = self._read()
            kept = self._views.get(str(run.path))
        return kept.view if kept and kept.stamp == stamp else None

    def put(self, run: RunDirectory, stamp: Stamp, view: RunView) -> None:
        """Keep a view."""
        with self._lock:
            if self._views is not None:
                self._views[str(run.path)] = Kept(stamp=stamp, view=view)
                self._changed = True

    def save(self) -> None:
        """Write what is kept, where it has changed; a cache that cannot be written is none."""
        with self._lock:
            if not self._changed or self._views is None:
                return
            self._changed = False
            views = dict(list(self._views.items())[-_LIMIT:])
        with contextlib.suppress(KerneltuiError, OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self._file, to_json(KeptViews(kerneltui=__version__, views=views), indent=0))

    def _read(self) -> dict[str, Kept]:
        try:
            kept = read_record(self._file, KeptViews)
        except KerneltuiError:
            return {}
        return dict(kept.views) if kept.kerneltui == __version__ else {}


def stamp_of(run: RunDirectory) -> Stamp | None:
    """Return when a run's state and notes were written; None where there is no state."""
    try:
        state = (run.path / "state.json").stat()
    except OSError:
        return None
    notes = 0
    with contextlib.suppress(OSError):
        notes = (run.path / "notes.toml").stat().st_mtime_ns
    return (state.st_mtime_ns, state.st_size, state.st_ino, notes)


def view_cache() -> ViewCache:
    """Return the cache of this person."""
    return _caches.setdefault(cache_directory(), ViewCache(cache_directory() / "runs.json"))


_caches: dict[Path, ViewCache] = {}
