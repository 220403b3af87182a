"""What this process may use of the machine: cores, memory, and what its control group allows of both.

Source: the Linux kernel's documentation of control groups, admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst, and
proc_pid_cgroup(5).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

# Version 1 writes "no limit" as the largest multiple of a page.
_NO_LIMIT = 1 << 60
_LIMITING = frozenset({"memory", "cpu"})


def read_limits() -> dict[str, Any]:
    """Return `cores`, `cpu_quota`, `memory_total`, `memory_available` and `memory_limit` as `Server` has them.

    A limit that is not below what the machine has is none.
    """
    import psutil

    memory = psutil.virtual_memory()
    groups = control_groups()
    limits = [limit for group in groups if (limit := _memory_limit(group)) and limit < memory.total]
    return {
        "cores": count_cores(),
        "cpu_quota": min((quota for group in groups if (quota := _cpu_quota(group))), default=None),
        "memory_total": int(memory.total),
        "memory_available": int(memory.available),
        "memory_limit": min(limits, default=None),
    }


def count_cores() -> int | None:
    """Return the number of cores that this process may use, which can be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def control_groups(root: Path = Path("/")) -> list[Path]:
    """Return the folders of this process's control groups and of all above them, each of which can set a limit.

    In a container the path that the kernel tells may be the host's, and its folder not there; that of the mount is.
    Empty where there are none.
    """
    try:
        paths = dict(_own_paths((root / "proc/self/cgroup").read_text()))
        mounts = list(_mounts((root / "proc/self/mountinfo").read_text()))
    except OSError:
        return []
    folders: dict[Path, None] = {}
    for controllers, mount in mounts:
        for path in (path for names, path in paths.items() if names & controllers or names == controllers):
            own = PurePosixPath(path.strip("/"))
            folders |= dict.fromkeys(root / mount.strip("/") / part for part in (own, *own.parents))
    return [folder for folder in folders if folder.is_dir()]


def _own_paths(text: str) -> Iterator[tuple[frozenset[str], str]]:
    """Return the controllers of each hierarchy and the path in it; version 2 has none: "0::/user.slice"."""
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        yield frozenset(filter(None, controllers.split(","))), path


def _mounts(text: str) -> Iterator[tuple[frozenset[str], str]]:
    """Return the controllers of each mounted hierarchy (none for version 2) and where it is mounted."""
    for line in text.splitlines():
        mount, _, kind = line.partition(" - ")
        words = kind.split()
        if words[:1] == ["cgroup2"]:
            yield frozenset(), mount.split()[4]
        elif words[:1] == ["cgroup"] and (known := _LIMITING.intersection(words[2].split(","))):
            yield known, mount.split()[4]


def _memory_limit(group: Path) -> int | None:
    """Return the bytes that a group may use, None without a limit."""
    value = _read(group / "memory.max") or _read(group / "memory.limit_in_bytes")
    return int(value) if value.isdecimal() and int(value) < _NO_LIMIT else None


def _cpu_quota(group: Path) -> float | None:
    """Return how many cores' time a group may use, None without a limit."""
    quota, _, period = _read(group / "cpu.max").partition(" ")
    if not quota:
        quota, period = _read(group / "cpu.cfs_quota_us"), _read(group / "cpu.cfs_period_us")
    return int(quota) / int(period) if quota.isdecimal() and period.isdecimal() and int(period) else None


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
