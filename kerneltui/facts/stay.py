"""Whether what is started here goes on after the session's end: systemd, the container, the Slurm job."""

from __future__ import annotations

import os
import pwd
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

from kerneltui.facts.command import UnansweredError, ask_program
from kerneltui.facts.server import Stay
from kerneltui.text import plain_line

_MANAGER = ("org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager")
_KILL = ("KillUserProcesses", "KillOnlyUsers", "KillExcludeUsers")
# What the first process's control group is called in a container whose maker left no other sign.
_GROUP = re.compile(r"kubepods|docker|libpod|lxc|containerd")


def read_stay(environment: Mapping[str, str] | None = None, root: Path = Path("/")) -> Stay:
    """Return what ends processes together with the session that started them.

    systemd is asked only where it runs the machine (sd_booted(3)): elsewhere, as in most containers, nothing of it
    ends processes at a logout.
    """
    variables = os.environ if environment is None else environment
    kill, linger, unavailable = None, None, dict[str, str]()
    if (root / "run/systemd/system").is_dir():
        user = _user()
        kill = _asked("kill_user_processes", lambda: ends_processes_of(user, _kill_settings()), unavailable)
        linger = _asked("linger", lambda: _lingers(user), unavailable)
    return Stay(
        kill_user_processes=kill,
        linger=linger,
        container=find_container(variables, root),
        slurm_job=plain_line(variables.get("SLURM_JOB_ID", "")) or None,
        unavailable=unavailable,
    )


def find_container(variables: Mapping[str, str], root: Path = Path("/")) -> str | None:
    """Return the kind of container that this process is in, None where nothing tells of one.

    Source of the signs: Kubernetes' own variables; Apptainer's; podman's and Docker's files; and what
    https://systemd.io/CONTAINER_INTERFACE asks of those who make containers (`container`, /run/systemd/container).
    """
    if "KUBERNETES_SERVICE_HOST" in variables:
        return "kubernetes"
    if "APPTAINER_CONTAINER" in variables or "SINGULARITY_CONTAINER" in variables:
        return "apptainer"
    if (root / "run/.containerenv").exists():
        return "podman"
    if (root / ".dockerenv").exists():
        return "docker"
    told = variables.get("container") or _text(root / "run/systemd/container")
    if told:
        return plain_line(told)
    found = _GROUP.search(_text(root / "proc/1/cgroup"))
    return {"kubepods": "kubernetes", "libpod": "podman"}.get(found[0], found[0]) if found else None


def ends_processes_of(user: str, settings: list[list[str]]) -> bool:
    """Return whether systemd ends `user`'s processes at the logout, from busctl's words for `_KILL`.

    Source: logind.conf(5): KillOnlyUsers, where it names any, says for whom; KillExcludeUsers (root, where nothing
    else is set) for whom not. The words are a type, then the value; an array begins with its length.
    """
    kills, only, excluded = settings
    return kills[1] == "true" and user not in excluded[2:] and (not only[2:] or user in only[2:])


def _kill_settings() -> list[list[str]]:
    lines = ask_program("busctl", "--no-pager", "get-property", *_MANAGER, *_KILL).splitlines()
    if len(lines) != len(_KILL):
        raise UnansweredError(f"busctl told {len(lines)} settings in place of {len(_KILL)}")
    return [shlex.split(line) for line in lines]


def _lingers(user: str) -> bool:
    answer = ask_program("loginctl", "--no-pager", "show-user", user, "--property=Linger").strip()
    return answer == "Linger=yes"


def _user() -> str:
    """Return the user's name, or the number where it has none, as in containers."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _asked(name: str, ask: Callable[[], bool], unavailable: dict[str, str]) -> bool | None:
    try:
        return ask()
    except UnansweredError as error:
        unavailable[name] = plain_line(str(error))
        return None


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return ""
