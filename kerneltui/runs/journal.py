"""What the supervisor writes of a run: its state and its events. What a full disk does not take is tried again."""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from kerneltui.errors import KerneltuiError
from kerneltui.records import to_json
from kerneltui.runs.directory import RunDirectory
from kerneltui.text import now

# Seconds between two tries to write the end of a run: the first pause, and the longest.
_PAUSES = (0.25, 10.0)


class Journal:
    """The state and the events of a run, as its supervisor writes them. `state` is what was last given to write.

    Raises nothing for a disk that takes nothing: what runs still has to be watched. `flush` tries again.
    """

    def __init__(self, run: RunDirectory) -> None:
        self.run = run
        self.state = run.read_state()
        self._changed = False
        self._events: deque[dict[str, Any]] = deque()

    def change(self, **changes: Any) -> None:
        """Replace fields of the state."""
        self.state = msgspec.structs.replace(self.state, updated=now(), **changes)
        self._changed = True
        self.flush()

    def event(self, name: str, **values: Any) -> None:
        """Append an event of the present attempt."""
        self._events.append({"time": now(), "attempt": self.state.attempt, "event": name, **values})
        self.flush()

    def flush(self) -> bool:
        """Write what is not yet written; tells whether everything is. Events come first: a state may end the run."""
        with contextlib.suppress(OSError):
            while self._events:
                append_line(self.run.events, self._events[0])
                self._events.popleft()
        if self._changed:
            with contextlib.suppress(KerneltuiError):
                self.run.write("state.json", self.state)
                self._changed = False
        return not self._changed and not self._events

    def settle(self) -> None:
        """Return when everything is written, or when the run's directory is gone."""
        pause, longest = _PAUSES
        while not self.flush() and self.run.path.is_dir():
            time.sleep(pause)
            pause = min(2 * pause, longest)


def append_line(path: Path, value: object) -> None:
    """Append `value` as a line of JSON in one write, so that lines of several processes do not mix. Raises OSError.

    Where the file ends within a line (the disk was full, whoever wrote), the new one begins on a line of its own, so
    that two records never become one. The training process has the same (`worker.record`).
    """
    line = to_json(value, indent=0)
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            line = b"\n" + line
        if os.write(descriptor, line) < len(line):
            raise OSError(f"the disk took a part of a line of {len(line)} bytes")
    finally:
        os.close(descriptor)


def open_log(path: Path) -> BinaryIO:
    """Return a log opened for appending, readable by its owner alone. Raises OSError."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600), "ab")
