"""Whether a run belongs to this machine and this boot of it, and when an active one was last heard of."""

from __future__ import annotations

import os
import pwd
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
    ours = is_here(state) and os.access(run.lock, os.W_OK) and foreign_owner(run) is None
    if state.phase not in ACTIVE or ours:
        return None
    heard = last_sign(run, state)
    return heard if heard and (datetime.now().astimezone() - heard).total_seconds() > _SILENCE else None


def foreign_owner(run: RunDirectory) -> str | None:
    """Return whose run it is, where this is root and the run another's: its owner could not read what root wrote.

    None for everybody else, whom permissions keep from writing.
    """
    try:
        uid = run.path.stat().st_uid
    except OSError:
        return None
    if os.geteuid() != 0 or uid == 0:
        return None
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def lost_words(state: State, since: datetime) -> str:
    """Return what is said of a run that has not been heard of since then."""
    if is_here(state):
        return f"its supervisor is gone, it has written nothing since {since:%Y-%m-%d %H:%M}; its owner can take it up"
    return f"lost contact: nothing has been heard from {state.hostname} since {since:%Y-%m-%d %H:%M}"


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
