"""The supervisor of a run: a small process in its own session that starts training, watches it, and writes its end.

`python -m kerneltui.runs.supervisor RUN_DIRECTORY`. When an earlier supervisor is gone it takes over what still runs.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import psutil

from kerneltui.errors import KerneltuiError
from kerneltui.facts.gpu import Nvml
from kerneltui.records import to_json
from kerneltui.runs.directory import Phase, Request, RunDirectory, State, read_lines
from kerneltui.runs.processes import boot_id, end_processes, processes_of
from kerneltui.text import now, plain_line

# Seconds between looks at the training process, and between two samples of the machine.
_TICK = 0.25
_SAMPLE = 2.0


def main() -> None:
    """Supervise the run named on the command line until it ends; does nothing when another supervisor does."""
    run = RunDirectory(Path(sys.argv[1]))
    # A handler, not SIG_IGN, which the training processes would inherit.
    signal.signal(signal.SIGHUP, lambda *_: None)
    with holding(run.lock) as held:
        if held:
            Supervisor(run).supervise()


@contextlib.contextmanager
def holding(lock: Path) -> Iterator[bool]:
    """Hold the lock file for a while; gives False when another process holds it. The system frees it at any end."""
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield True
    except BlockingIOError:
        yield False
    finally:
        os.close(descriptor)


class Supervisor:
    """One run's supervisor. `state` is what was last written."""

    def __init__(self, run: RunDirectory) -> None:
        self.run = run
        self.state = run.read_state()
        self._child: subprocess.Popen[bytes] | None = None
        self._killed = False
        self._next_sample = 0.0

    def supervise(self) -> None:
        """Start the training process, or take over the one that runs, and watch it to its end."""
        if self.state.phase == "starting":
            if not self._start():
                return
        elif self.state.phase == "running":
            self._write(supervisor_pid=os.getpid())
        else:
            return
        with Nvml() as nvml:
            while self._running():
                self._look_for_kill()
                self._sample(nvml)
                self._wait()
        self._finish()

    def _start(self) -> bool:
        number = self.state.attempt
        command = self.run.read_command(number)
        try:
            with self.run.output(number).open("ab") as output:
                self._child = subprocess.Popen(
                    command.argv,
                    cwd=command.cwd,
                    env={**os.environ, **command.environment},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            self._write(phase="failed", ended=now(), reason=f"cannot start {command.argv[0]}: {error.strerror}")
            return False
        self._write(phase="running", supervisor_pid=os.getpid(), pid=self._child.pid, started=now())
        return True

    def _running(self) -> bool:
        """Whether any process of the run lives; the launcher's end alone does not end a run."""
        if self._child is not None and self._child.poll() is None:
            return True
        return bool(processes_of(self.run.path))

    def _wait(self) -> None:
        if self._child is None or self._child.poll() is not None:
            time.sleep(_TICK)
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(timeout=_TICK)

    def _look_for_kill(self) -> None:
        try:
            request = msgspec.json.decode(self.run.request.read_bytes(), type=Request)
        except (OSError, msgspec.MsgspecError):
            return
        if request.action != "kill":
            return
        self._killed = True
        self._event("kill")
        left = end_processes(self.run.path)
        if left:
            self._event("kill_failed", pids=left)
        self.run.request.unlink(missing_ok=True)

    def _sample(self, nvml: Nvml) -> None:
        if time.monotonic() < self._next_sample:
            return
        self._next_sample = time.monotonic() + _SAMPLE
        memory = psutil.virtual_memory()
        with contextlib.suppress(OSError):
            self._append(
                self.run.system,
                {
                    "time": now(),
                    "attempt": self.state.attempt,
                    "gpus": nvml.sample(),
                    "memory_used": memory.total - memory.available,
                    "memory_total": memory.total,
                    "disk_free": psutil.disk_usage(str(self.run.path)).free,
                },
            )

    def _finish(self) -> None:
        code = self._child.wait() if self._child else None
        phase, reason = how_it_ended(self.run, self.state.attempt, code, killed=self._killed)
        self.run.request.unlink(missing_ok=True)
        self._write(phase=phase, ended=now(), exit_code=code, reason=reason)
        self._event("run_end", phase=phase, exit_code=code, reason=reason)

    def _write(self, **changes: Any) -> None:
        self.state = msgspec.structs.replace(self.state, updated=now(), **changes)
        # A full disk must not end the supervisor: what runs still has to be watched, and the next write may succeed.
        with contextlib.suppress(KerneltuiError):
            self.run.write("state.json", self.state)

    def _event(self, name: str, **values: Any) -> None:
        with contextlib.suppress(OSError):
            self._append(self.run.events, {"time": now(), "attempt": self.state.attempt, "event": name, **values})

    @staticmethod
    def _append(path: Path, value: object) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, to_json(value, indent=0))
        finally:
            os.close(descriptor)


def how_it_ended(run: RunDirectory, attempt: int, code: int | None, *, killed: bool) -> tuple[Phase, str | None]:
    """Return the phase and the reason of an attempt whose processes are gone.

    `code` is the launcher's exit code, None where another process was its parent; then the training process's own last
    word decides.
    """
    if killed:
        return "killed", "by request (stop --now)"
    ends = [
        line for line in read_lines(run.events) if line.get("attempt") == attempt and line.get("event") == "process_end"
    ]
    failed = next((end for end in ends if end.get("outcome") in ("failed", "interrupted")), None)
    if failed:
        error = failed.get("error") or {}
        words = f"{error.get('type', failed['outcome'])}: {error.get('message', '')}".rstrip(": ")
        return "failed", plain_line(words)
    if code is not None and code < 0:
        return "killed", f"by signal {signal.Signals(-code).name}"
    if ends and not code:
        return (
            ("stopped", "by request, with a checkpoint") if ends[0].get("outcome") == "stopped" else ("finished", None)
        )
    if code is None:
        return (
            "killed",
            "the training process ended without a word: by a signal, or by the system for want of memory",
        )
    return "failed", _last_words(run.output(attempt)) or f"exit code {code}"


def _last_words(log: Path) -> str:
    """Return the last line of a log that says something."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 8192))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    return next((text for line in reversed(lines) if (text := plain_line(line))), "")


def initial_state(attempt: int) -> State:
    """Return the state of an attempt that is about to start on this machine."""
    return State(phase="starting", attempt=attempt, hostname=socket.gethostname(), boot_id=boot_id(), updated=now())


def start_supervisor(run: RunDirectory) -> None:
    """Start a supervisor for `run` that outlives this process and its terminal."""
    with (run.path / "supervisor.log").open("ab") as log:
        subprocess.Popen(
            [sys.executable, "-P", "-m", "kerneltui.runs.supervisor", str(run.path)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd="/",
        )


if __name__ == "__main__":
    main()
