"""The lock by which a run has one supervisor; the system frees it at any end of the process that holds it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

_PAUSE = 0.05


@contextlib.contextmanager
def holding(lock: Path, *, patience: float = 0.0) -> Iterator[bool]:
    """Hold the lock file for a while; gives False when another process holds it for longer than `patience` seconds.

    Raises OSError where the file cannot be opened for writing: it is another person's run, or the directory is gone.
    """
    deadline = time.monotonic() + patience
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while not (held := _lock(descriptor)) and time.monotonic() < deadline:
            time.sleep(_PAUSE)
        yield held
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
