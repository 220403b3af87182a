"""The processes of a run, found by a mark in their environment: also after their parents died or changed session."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

import psutil

# The environment variable that every process of a run inherits; its value is the run directory.
MARK = "KERNELTUI_RUN"


def boot_id() -> str | None:
    """Return what tells one boot of this machine from another, None where the system has no such thing."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None


def processes_of(run: Path) -> list[psutil.Process]:
    """Return the living processes of the run in directory `run`, those of this user that carry its mark."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(MARK) == str(run) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def end_processes(run: Path, *, grace: float = 10.0) -> list[int]:
    """End all processes of a run: TERM, and KILL for those that still live after `grace` seconds.

    Returns the pids that live even so (a process in an uninterruptible system call).
    """
    deadline = time.monotonic() + grace
    _signal(processes_of(run), signal.SIGTERM)
    while (left := processes_of(run)) and time.monotonic() < deadline:
        psutil.wait_procs(left, timeout=0.2)
    # Some may have started children meanwhile.
    for _ in range(5):
        if not left:
            break
        _signal(left, signal.SIGKILL)
        psutil.wait_procs(left, timeout=1)
        left = processes_of(run)
    return [process.pid for process in left]


def _signal(processes: list[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            if process.pid != os.getpid():
                process.send_signal(number)
