"""The space where a run, the Hub's cache and shared memory are kept."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from kerneltui.facts.command import UnansweredError, ask_program
from kerneltui.facts.server import Disk
from kerneltui.paths import runs_directory

Purpose = Literal["runs", "cache", "shared memory"]
_SHARED_MEMORY = Path("/dev/shm")


def places(runs_dir: Path | None) -> Mapping[Purpose, Path]:
    """Return where runs, the Hub's cache and, on Linux, the memory that processes share are kept."""
    from huggingface_hub.constants import HF_HUB_CACHE

    found: dict[Purpose, Path] = {"runs": runs_directory(runs_dir), "cache": Path(HF_HUB_CACHE)}
    return {**found, "shared memory": _SHARED_MEMORY} if _SHARED_MEMORY.is_dir() else found


def read_disk(purpose: Purpose, path: Path) -> Disk:
    """Return the space for what lies, or will lie, at `path`. Raises OSError; a lost network disk makes it hang.

    `free` is what a user without privileges may write there (`f_bavail`), or what the user's quota leaves, where the
    program `quota` knows of one and it is less.
    """
    place = _nearest_existing(path)
    usage = shutil.disk_usage(place)
    left = None if purpose == "shared memory" else _quota(place)
    free = usage.free if left is None else min(usage.free, left)
    return Disk(purpose=purpose, path=str(path), free=free, total=usage.total, quota=free < usage.free)


def _quota(place: Path) -> int | None:
    """Return the bytes that the user's quota leaves on the disk of `place`; None without one, or where none is told."""
    place = place.resolve()
    mount = next((folder for folder in (place, *place.parents) if folder.is_mount()), place)
    options = ("-u", "-w", "-p", "--show-mntpoint", "--hide-device")
    try:
        # It ends with 1 where more is used than allowed.
        told = ask_program("quota", *options, f"--filesystem={mount}", codes=(0, 1))
    except UnansweredError:
        return None
    return read_quota(told, str(mount))


def read_quota(told: str, mount: str) -> int | None:
    """Return the bytes that are left, from what `quota` (quota-tools 4) prints; None where it tells of no limit.

    A line has the mount point, then numbers: KiB in use (with a star where that is too much), the soft and the hard
    limit, in which 0 is none, the grace, and four more about files.
    """
    for line in told.splitlines():
        name, *numbers = line.strip().rsplit(None, 8)
        if name != mount or len(numbers) != 8:
            continue
        used, soft, hard = (int(number.rstrip("*")) for number in numbers[:3])
        return max(0, (hard or soft) - used) * 1024 if hard or soft else None
    return None


def _nearest_existing(path: Path) -> Path:
    """Return the path or the nearest folder above it that is there: what will be made lies on that disk."""
    return next((place for place in (path, *path.parents) if place.exists()), path)
