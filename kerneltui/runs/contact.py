"""Whether a run belongs to this machine and this boot of it, and when an active one was last heard of."""

from __future__ import annotations

import os
import socket
from datetime import datetime

from kerneltui.runs.directory import ACTIVE, RunDirectory, State
from kerneltui.runs.processes import boot_id

# A supervisor writes a sample every two seconds; so long without one, on a disk that other machines share and whose
# caches may be a minute late, means that it is gone. Seconds.
_SILENCE = 300.0


def is_here(state: State) -> bool:
    """Whether the run is on this machine."""
    return state.hostname == socket.gethostname()


def restarted(state: State) -> bool:
    """Whether this machine was restarted since the run was started here: then nothing of it is left."""
    boot = boot_id()
    return is_here(state) and None not in (boot, state.boot_id) and boot != state.boot_id


def age_of(state: State) -> float:
    """Return the seconds since the state was written."""
    try:
        return (datetime.now().astimezone() - datetime.fromisoformat(state.updated)).total_seconds()
    except (ValueError, TypeError):
        return 0.0


def lost_since(run: RunDirectory, state: State) -> datetime | None:
    """Return since when an active run has not been heard of, None while it is, or is looked after from here.

    That is a run of another machine, or of another person on this one.
    """
    if state.phase not in ACTIVE or (is_here(state) and os.access(run.lock, os.W_OK)):
        return None
    heard = last_sign(run, state)
    return heard if heard and (datetime.now().astimezone() - heard).total_seconds() > _SILENCE else None


def last_sign(run: RunDirectory, state: State) -> datetime | None:
    """Return when the run's supervisor last wrote: its last sample, else the state."""
    try:
        return datetime.fromtimestamp(run.system.stat().st_mtime).astimezone()
    except OSError:
        pass
    try:
        return datetime.fromisoformat(state.updated).astimezone()
    except ValueError:
        return None
