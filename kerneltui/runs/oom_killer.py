"""Whether the kernel has ended processes for want of memory: its own count, before and after."""

from __future__ import annotations

from pathlib import Path

# Counts each process that was ended so since boot, also by the limit of a control group. Source: Linux 4.13 and newer,
# `mm/oom_kill.c` (`__oom_kill_process`) and `vmstat`.
_VMSTAT = Path("/proc/vmstat")


def oom_kills(vmstat: Path = _VMSTAT) -> int | None:
    """Return how many processes the kernel has ended for want of memory since boot; None where it does not tell."""
    try:
        lines = vmstat.read_text().splitlines()
    except OSError:
        return None
    counts = [line.split()[1] for line in lines if line.startswith("oom_kill ")]
    return int(counts[0]) if counts and counts[0].isdigit() else None


def struck_since(before: object, vmstat: Path = _VMSTAT) -> bool | None:
    """Whether it has since a count of `before`; None where one of the two counts is missing."""
    after = oom_kills(vmstat)
    return after > before if isinstance(before, int) and after is not None else None
