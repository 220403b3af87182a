"""The space where a run, the Hub's cache and shared memory are kept."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

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

    `free` is what a user without privileges may write (`f_bavail`), which on XFS projects, ZFS and btrfs is
    what the directory's quota leaves; a quota of the user is not in it.
    """
    usage = shutil.disk_usage(_nearest_existing(path))
    return Disk(purpose=purpose, path=str(path), free=usage.free, total=usage.total)


def _nearest_existing(path: Path) -> Path:
    """Return the path or the nearest folder above it that is there: what will be made lies on that disk."""
    return next((place for place in (path, *path.parents) if place.exists()), path)
