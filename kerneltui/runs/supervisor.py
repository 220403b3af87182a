"""The supervisor of a run: a small process in its own session that starts training, watches it, and writes its end.

`python -m kerneltui.runs.supervisor RUN_DIRECTORY`. When an earlier supervisor is gone it takes over what still runs.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

import msgspec
import psutil

from kerneltui.errors import KerneltuiError
from kerneltui.runs.contact import age_of, is_here, last_sign, restarted
from kerneltui.runs.directory import ACTIVE, Command, Request, RunDirectory, State
from kerneltui.runs.ending import RESTARTED, how_it_ended
from kerneltui.runs.handover import HANDED, handed, whole_command
from kerneltui.runs.journal import Journal, append_line, open_log
from kerneltui.runs.lock import holding
from kerneltui.runs.machine import GpuReader, Machine
from kerneltui.runs.oom_killer import oom_kills
from kerneltui.runs.processes import Remembered, boot_id, end_processes
from kerneltui.runs.ranks import Ranks
from kerneltui.runs.tail import JsonTail
from kerneltui.runs.vigil import Vigil
from kerneltui.text import now

# Seconds between looks at the training process.
_TICK = 0.25
# Seconds that helpers (a tracker's daemon) may go on after the launcher and all ranks have ended.
_GRACE = 10.0
# Seconds after which a run that has not started is not started any more: the GPUs may be another's by now.
_TOO_LATE = 600.0
# Seconds that a supervisor waits for the lock, which a front end takes for a moment to see whether it is free.
_LOCK_PATIENCE = 2.0


def main() -> None:
    """Supervise the run named on the command line until it ends; does nothing when another supervisor does."""
    run = RunDirectory(Path(sys.argv[1]))
    # A handler, not SIG_IGN, which the training processes would inherit.
    signal.signal(signal.SIGHUP, lambda *_: None)
    with holding(run.lock, patience=_LOCK_PATIENCE) as held:
        if held:
            Supervisor(run).supervise()


class Supervisor:
    """One run's supervisor. `gpus` stands in for NVML in tests."""

    def __init__(self, run: RunDirectory, *, gpus: GpuReader | None = None) -> None:
        self.run = run
        self.journal = Journal(run)
        self._gpus = gpus
        self._child: subprocess.Popen[bytes] | None = None
        self._killed = False
        self._processes = Remembered(run.path, self.state.attempt)
        self._events = JsonTail(run.events)
        self._ranks = Ranks(self.state.attempt)
        self._vigil = Vigil(run, self.journal)
        self._helpers_since: float | None = None

    @property
    def state(self) -> State:
        """The run's state, as it was last given to write."""
        return self.journal.state

    def supervise(self) -> None:
        """Start the training process, or take over the one that runs, and watch it to its end."""
        if self.state.phase not in ACTIVE or not is_here(self.state):
            return
        if restarted(self.state):
            write_lost(self.journal)
        elif self._take_up():
            self._watch()
            self._finish()
        self.journal.settle()

    def _take_up(self) -> bool:
        """Have the training process running, or taken over; False when there is none, which the state then says."""
        if self.state.phase == "running":
            self.journal.change(supervisor_pid=os.getpid())
            return True
        # Another supervisor may have come this far, and have been lost before it could write so.
        adopted = self._processes.living()
        if adopted:
            first = min(adopted, key=psutil.Process.create_time)
            begun = datetime.fromtimestamp(first.create_time()).astimezone()
            self._begin(first.pid, begun.isoformat(timespec="milliseconds"))
            return True
        if self.run.output(self.state.attempt).exists():
            self.journal.change(phase="running", supervisor_pid=os.getpid())
            return True
        if age_of(self.state) > _TOO_LATE:
            return self._fail("its supervisor was lost before training began")
        return self._start()

    def _start(self) -> bool:
        number = self.state.attempt
        try:
            command = whole_command(self.run.read_command(number), os.environ)
        except KerneltuiError as error:
            return self._fail(f"cannot start: {error.title}: {error.message}")
        try:
            with open_log(self.run.output(number)) as output:
                self._child = subprocess.Popen(
                    command.argv,
                    cwd=command.cwd,
                    env={name: value for name, value in os.environ.items() if name != HANDED} | command.environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            where = f" ({error.filename})" if error.filename not in (None, command.argv[0]) else ""
            return self._fail(f"cannot start {command.argv[0]}: {error.strerror}{where}")
        self._begin(self._child.pid, now())
        return True

    def _begin(self, pid: int, started: str) -> None:
        self.journal.event("run_begin", pid=pid, oom_kills=oom_kills())
        self.journal.change(phase="running", supervisor_pid=os.getpid(), pid=pid, started=started)

    def _fail(self, reason: str) -> bool:
        self.journal.event("run_end", phase="failed", exit_code=None, reason=reason)
        self.journal.change(phase="failed", ended=now(), reason=reason)
        return False

    def _watch(self) -> None:
        with Machine(self.run.path, self._gpus) as machine:
            while self._running():
                self._look_for_kill()
                self._read_events()
                self._sample(machine)
                self._vigil.look()
                self.journal.flush()
                self._wait()
        self._read_events()

    def _running(self) -> bool:
        """Whether a process of the attempt lives that matters; the launcher's end alone does not end a run."""
        if self._child is not None and self._child.poll() is None:
            return True
        living = self._processes.living()
        if not living or not self._only_helpers(living):
            self._helpers_since = None
            return bool(living)
        self._helpers_since = self._helpers_since or time.monotonic()
        if time.monotonic() < self._helpers_since + _GRACE:
            return True
        # A rank may have been started after the last look at all processes.
        living = self._processes.living(again=True)
        if not self._only_helpers(living):
            return bool(living)
        if living:
            self.journal.event("left_running", pids=[process.pid for process in living])
        return False

    def _only_helpers(self, living: list[psutil.Process]) -> bool:
        """Whether the launcher and all ranks that started are gone: by their own last word, or without one."""
        pids = {process.pid for process in living}
        return self._ranks.started and self.state.pid not in pids and not pids & set(self._ranks.silent().values())

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
        self.journal.event("kill")
        left = end_processes(self.run.path)
        if left:
            self.journal.event("kill_failed", pids=left)
        self._forget_request()

    def _read_events(self) -> None:
        """Take in what the ranks have written; what was said of them before comes first."""
        new = [event for event in self._events.read_all() if event.get("attempt") == self.state.attempt]
        for event in new:
            self._ranks.add(event)
        for event in sorted(new, key=lambda event: event.get("event") != "alert"):
            self._vigil.add_event(event)

    def _sample(self, machine: Machine) -> None:
        with contextlib.suppress(OSError):
            if sample := machine.sample():
                line = {"time": now(), "attempt": self.state.attempt, **msgspec.structs.asdict(sample)}
                self._vigil.add_sample(sample)
                append_line(self.run.system, line)

    def _finish(self) -> None:
        code = self._child.wait() if self._child else None
        ending = how_it_ended(self.run, self.state.attempt, code, killed=self._killed)
        self._forget_request()
        self.journal.event("run_end", exit_code=code, **ending._asdict())
        told = {"reason": ending.reason, "way_out": ending.way_out}
        self.journal.change(phase=ending.phase, ended=now(), exit_code=code, **told)
        self._vigil.end(ending.phase, **told)

    def _forget_request(self) -> None:
        with contextlib.suppress(OSError):
            self.run.request.unlink(missing_ok=True)


def write_lost(journal: Journal) -> None:
    """Write that a restart of the machine has ended the run; that was after its last sign of life."""
    sign = last_sign(journal.run, journal.state)
    journal.event("run_end", phase="lost", exit_code=None, reason=RESTARTED)
    journal.change(phase="lost", ended=sign.isoformat(timespec="milliseconds") if sign else None, reason=RESTARTED)


def initial_state(attempt: int) -> State:
    """Return the state of an attempt that is about to start on this machine."""
    return State(phase="starting", attempt=attempt, hostname=socket.gethostname(), boot_id=boot_id(), updated=now())


def start_supervisor(run: RunDirectory, command: Command | None = None) -> subprocess.Popen[bytes]:
    """Start a supervisor for `run` that outlives this process and its terminal, and return its process.

    One that is to start training needs the `command` for its secrets. Raises OSError where the run's directory cannot
    be written.
    """
    with open_log(run.path / "supervisor.log") as log:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "kerneltui.runs.supervisor", str(run.path)],
            env={**os.environ, **(handed(command) if command else {})},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd="/",
        )


if __name__ == "__main__":
    main()
