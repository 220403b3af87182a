"""Asking things of a run: a checkpoint, a stop, an end at once; and a supervisor where there is none."""

from __future__ import annotations

import socket
from typing import Literal

from kerneltui.errors import KerneltuiError
from kerneltui.paths import write_atomically
from kerneltui.records import to_json
from kerneltui.runs.directory import ACTIVE, Request, RunDirectory, State
from kerneltui.runs.supervisor import holding, start_supervisor
from kerneltui.text import now


def ask_run(run: RunDirectory, action: Literal["checkpoint", "stop", "kill"]) -> None:
    """Ask a run for a checkpoint, a stop with a checkpoint at the next optimizer step, or its end at once.

    Returns when the request is written; the run's events tell when it was carried out. Raises KerneltuiError when the
    run is not active.
    """
    state = watch_over(run)
    if state.phase not in ACTIVE:
        raise KerneltuiError(
            f"{run.name} is not running",
            f"It is {state.phase}" + (f": {state.reason}." if state.reason else "."),
            "`kerneltui runs` lists all runs.",
        )
    write_atomically(run.request, to_json(Request(action=action, time=now()), indent=0))


def watch_over(run: RunDirectory) -> State:
    """Return the run's state, after starting a supervisor for an active run of this machine that has none."""
    state = run.read_state()
    if state.phase == "running" and state.hostname == socket.gethostname():
        with holding(run.lock) as free:
            pass
        if free:
            start_supervisor(run)
    return state
