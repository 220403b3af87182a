"""The processes of a run, found by a mark in their environment: also after their parents died or changed session."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

import psutil

# The environment variables that every process of a run inherits: the run directory, and the number of the attempt.
MARK = "KERNELTUI_RUN"
ATTEMPT = "KERNELTUI_ATTEMPT"


def boot_id() -> str | None:
    """Return what tells one boot of this machine from another, None where the system has no such thing."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None


def processes_of(run: Path, attempt: int | None = None) -> list[psutil.Process]:
    """Return the living processes of the run in directory `run`, those of this user that carry its mark.

    With `attempt` those of that attempt alone.
    """
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            marks = process.environ()
            if marks.get(MARK) != str(run) or (attempt and marks.get(ATTEMPT, str(attempt)) != str(attempt)):
                continue
            if _lives(process):
                found.append(process)
    return found


class Remembered:
    """The processes of an attempt, looked for among all of the machine only when those that are known are gone."""

    def __init__(self, run: Path, attempt: int) -> None:
        self._run = run
        self._attempt = attempt
        self._known: list[psutil.Process] = []

    def living(self, *, again: bool = False) -> list[psutil.Process]:
        """Return those that live; `again` looks among all processes of the machine, for what came later."""
        # psutil tells a process from a later one with the same id by the time at which it was made.
        self._known = [] if again else [process for process in self._known if _lives(process)]
        if not self._known:
            self._known = processes_of(self._run, self._attempt)
        return self._known


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


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _signal(processes: list[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            if process.pid != os.getpid():
                process.send_signal(number)
