"""Asking things of a run: a checkpoint, a stop, an end at once; and a supervisor where there is none."""

from __future__ import annotations

import contextlib
import os
import shlex
import time
from pathlib import Path
from typing import Literal

import msgspec

from kerneltui.errors import KerneltuiError
from kerneltui.paths import write_atomically
from kerneltui.records import to_json
from kerneltui.runs.contact import age_of, foreign_owner, is_here, restarted
from kerneltui.runs.directory import ACTIVE, Request, RunDirectory, State
from kerneltui.runs.ending import RESTARTED
from kerneltui.runs.journal import Journal
from kerneltui.runs.lock import holding
from kerneltui.runs.processes import end_processes, processes_of
from kerneltui.runs.supervisor import start_supervisor, write_lost
from kerneltui.text import now

Action = Literal["checkpoint", "stop", "kill"]

# The weaker first: one that waits to be carried out is never replaced by a weaker one.
_STRENGTH: tuple[Action, ...] = ("checkpoint", "stop", "kill")
# Seconds after which a run that is still starting has lost its supervisor; and between two tries to start one.
_STARTING = 15.0
_PAUSE = 10.0

# When this process last started a supervisor for a run: one that cannot live must not be started at every look.
_tried: dict[Path, float] = {}


def ask_run(run: RunDirectory, action: Action) -> None:
    """Ask a run for a checkpoint, a stop with a checkpoint at the next optimizer step, or its end at once.

    Returns when the request is written, or a stronger one waits; the run's events tell when it was carried out. On
    another machine that shares the disk, rank 0 sees a checkpoint or a stop. Raises KerneltuiError when the run is not
    active, and for an end at once when it runs on another machine.
    """
    state = watch_over(run)
    if action == "kill" and state.phase not in ACTIVE and is_here(state) and processes_of(run.path):
        _end(run)  # what an ended run has left
        return
    if state.phase not in ACTIVE:
        raise KerneltuiError(
            f"{run.name} is not running",
            f"It is {state.phase}" + (f": {state.reason}." if state.reason else "."),
            "`kerneltui runs` lists all runs.",
        )
    if action == "kill" and not is_here(state):
        raise KerneltuiError(
            f"{run.name} runs on {state.hostname}",
            "Its processes can be ended from there only.",
            f"Log in there: kerneltui stop {shlex.quote(str(run.path))} --now. A stop without --now works from here.",
        )
    if action == "kill":
        _refuse_foreign(run)
    waiting = pending(run)
    if waiting is None or _STRENGTH.index(waiting.action) < _STRENGTH.index(action):
        _write_request(run, action)


def _refuse_foreign(run: RunDirectory) -> None:
    """Raise KerneltuiError where root would have to start the supervisor that ends another's run."""
    owner = foreign_owner(run)
    if owner is None:
        return
    with holding(run.lock) as free:
        pass
    if free:
        path = shlex.quote(str(run.path))
        raise KerneltuiError(
            f"Nobody watches over {run.name}",
            f"Its supervisor is gone, and it is the run of {owner}: one of root would write what {owner} cannot read.",
            f"As {owner}: sudo -u {shlex.quote(owner)} kerneltui stop {path} --now",
        )


def _write_request(run: RunDirectory, action: Action) -> None:
    """Write a request. Where the disk takes none, an end at once is brought about from here."""
    try:
        write_atomically(run.request, to_json(Request(action=action, time=now()), indent=0))
    except KerneltuiError as error:
        if action != "kill":
            hint = "Make room on that disk. To end the run at once needs none: stop with --now."
            raise KerneltuiError(f"Cannot ask {run.name} for anything", error.message, hint) from error
        _end(run)
        return
    if foreign_owner(run):
        with contextlib.suppress(OSError):  # the run could not read a request that is root's
            owner = run.path.stat()
            os.chown(run.request, owner.st_uid, owner.st_gid)


def _end(run: RunDirectory) -> None:
    """End all processes of a run from here. Raises KerneltuiError for those that do not end."""
    if left := end_processes(run.path):
        raise KerneltuiError(
            f"{run.name} has not ended",
            f"These processes are still there: {', '.join(map(str, left))}.",
            "They wait for a disk or a GPU that does not answer; they end when it does.",
        )


def pending(run: RunDirectory) -> Request | None:
    """Return what was asked of the run and not yet taken up."""
    try:
        return msgspec.json.decode(run.request.read_bytes(), type=Request)
    except (OSError, msgspec.MsgspecError):
        return None


def watch_over(run: RunDirectory) -> State:
    """Return the run's state, after starting a supervisor for an active run of this machine that has none.

    A run that a restart of the machine has ended is written down as lost. The state of a run on another machine, or of
    another person whom root looks at, is returned as it is. Raises RecordError.
    """
    state = run.read_state()
    if state.phase not in ACTIVE or not is_here(state):
        return state
    if restarted(state):
        return _lose(run, state)
    # The clock may have been set back since: then it was written in what is now the future.
    if (state.phase == "starting" and abs(age_of(state)) < _STARTING) or foreign_owner(run):
        return state
    # Where the directory cannot be written it is another person's run, which its own supervisor watches.
    with contextlib.suppress(OSError):
        with holding(run.lock) as free:
            pass
        if free and time.monotonic() > _tried.get(run.path, -_PAUSE) + _PAUSE:
            _tried[run.path] = time.monotonic()
            start_supervisor(run)
    return state


def _lose(run: RunDirectory, state: State) -> State:
    """Write that a restart of the machine has ended the run, where it can be written, and return its state."""
    with contextlib.suppress(OSError), holding(run.lock) as free:
        if free and not foreign_owner(run):
            journal = Journal(run)
            if journal.state.phase in ACTIVE:
                write_lost(journal)
            return journal.state
    return msgspec.structs.replace(state, phase="lost", reason=RESTARTED)
