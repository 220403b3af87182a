"""Starting an attempt of a run: its folder, its command, its supervisor."""

from __future__ import annotations

import subprocess
import time

from kerneltui.errors import KerneltuiError
from kerneltui.paths import write_atomically
from kerneltui.runs.directory import Command, RunDirectory
from kerneltui.runs.handover import hidden_command
from kerneltui.runs.last_words import read_last_words
from kerneltui.runs.lock import holding
from kerneltui.runs.processes import end_processes
from kerneltui.runs.supervisor import start_supervisor

# Seconds until a supervisor must have written that it took over.
_START_LIMIT = 60.0


def write_attempt(run: RunDirectory, number: int, config: bytes | None) -> None:
    """Make the folder of attempt `number` with the configuration in it. Raises KerneltuiError."""
    try:
        run.attempt(number).parent.mkdir(mode=0o700, exist_ok=True)
        run.attempt(number).mkdir(mode=0o700)
    except OSError as error:
        raise KerneltuiError(
            f"Cannot write {run.path}", error.strerror or str(error), "Check permissions and free space."
        ) from error
    if config is not None:
        write_atomically(run.attempt(number) / "config.yaml", config)


def write_command(run: RunDirectory, number: int, command: Command) -> None:
    """Write the command of attempt `number` without its secrets. Raises KerneltuiError."""
    run.write(f"attempts/{number}/command.json", hidden_command(command))


def begin_attempt(run: RunDirectory, command: Command) -> None:
    """Start the supervisor of a run whose state is `starting`, and return once it has taken over.

    Where it raises (KerneltuiError), no process of the run is left; to put its files in order is the caller's.
    """
    supervisor = None
    try:
        supervisor = start_supervisor(run, command)
        _await_start(run, supervisor)
    except BaseException as error:
        if supervisor is not None:
            supervisor.kill()
            supervisor.wait()
        end_processes(run.path)
        if isinstance(error, OSError):
            raise KerneltuiError(
                f"Cannot start {run.name}", error.strerror or str(error), "Check permissions and free space."
            ) from error
        raise


def _await_start(run: RunDirectory, supervisor: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_LIMIT
    while run.read_state().phase == "starting":
        # It may have written that it took over, and then have ended, since the state was read.
        ended = supervisor.poll() is not None and run.read_state().phase == "starting" and not _is_watched(run)
        if ended or time.monotonic() > deadline:
            words = read_last_words(run.path / "supervisor.log")
            raise KerneltuiError(
                f"{run.name} was not started: its supervisor " + ("ended at once" if ended else "did not answer"),
                words.exception or words.line or "It said nothing.",
                "Nothing of it is left running. Try again; `kerneltui doctor` reads this server anew.",
            )
        time.sleep(0.05)


def _is_watched(run: RunDirectory) -> bool:
    """Whether another supervisor, which a front end may have started meanwhile, looks after the run."""
    with holding(run.lock) as free:
        return not free
