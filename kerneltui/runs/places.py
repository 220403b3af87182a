"""The index of directories that hold runs, so that a run is found from anywhere on this machine."""

from __future__ import annotations

import contextlib
from pathlib import Path

from kerneltui.errors import KerneltuiError
from kerneltui.paths import state_directory, write_atomically
from kerneltui.records import Document, read_record, to_json

_LIMIT = 100


class Places(Document):
    """Directories that hold runs, the one used last first."""

    directories: tuple[str, ...] = ()


def known_places() -> list[Path]:
    """Return the directories that are known to hold runs and still exist, the one used last first."""
    try:
        names = read_record(_file(), Places).directories
    except KerneltuiError:
        return []
    return [path for name in names if _is_directory(path := Path(name))]


def remember(runs: Path) -> None:
    """Put `runs` at the head of the index; a home that cannot be written is no error, the index is a convenience."""
    places = [runs, *(path for path in known_places() if path != runs)]
    with contextlib.suppress(KerneltuiError, OSError):
        _file().parent.mkdir(parents=True, exist_ok=True)
        write_atomically(_file(), to_json(Places(directories=tuple(str(path) for path in places[:_LIMIT]))))


def _is_directory(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # one that this user may not look into
        return False


def _file() -> Path:
    return state_directory() / "places.json"
