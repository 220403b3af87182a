"""What the host itself tells: environment variables that matter, disks, cores and memory."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from kerneltui.facts.server import Disk
from kerneltui.paths import runs_directory
from kerneltui.text import plain_line

# Those that change which kernel, model or GPU is taken, or where from.
VARIABLES = (
    *("HF_HOME", "HF_ENDPOINT", "HF_HUB_OFFLINE", "HF_HUB_CACHE", "TRANSFORMERS_OFFLINE"),
    *("USE_HUB_KERNELS", "LOCAL_KERNELS", "KERNELS_CACHE", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"),
)
_PREFIX = "NCCL_"

# All up to the last @: a password may itself hold an @ or a slash, and to show too little does no harm.
_CREDENTIALS = re.compile(r"(://)\S*@")
_TOKEN = re.compile(r"hf_\w{8,}")


def read_environment(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables that matter (of this process, if not given) with harmless values."""
    variables = os.environ if environment is None else environment
    chosen = sorted(name for name in variables if name in VARIABLES or name.startswith(_PREFIX))
    return {name: harmless(variables[name]) for name in chosen}


def harmless(value: str) -> str:
    """Return `value` on one line, with user and password taken out of addresses and Hub tokens replaced."""
    return hide_tokens(_CREDENTIALS.sub(r"\1", plain_line(value)))


def hide_tokens(text: str) -> str:
    """Return `text` with the tokens of the Hub in it replaced."""
    return _TOKEN.sub("hf_…", text)


def read_disks(runs_dir: Path | None, unavailable: dict[str, str]) -> tuple[Disk, ...]:
    """Return the space for runs and for the Hub's cache; a reason goes under "disks.<purpose>"."""
    from huggingface_hub.constants import HF_HUB_CACHE

    places: tuple[tuple[Literal["runs", "cache"], Path], ...] = (
        ("runs", runs_directory(runs_dir)),
        ("cache", Path(HF_HUB_CACHE)),
    )
    disks = []
    for purpose, path in places:
        try:
            usage = shutil.disk_usage(_nearest_existing(path))
        except OSError as error:
            unavailable[f"disks.{purpose}"] = f"{path}: {error.strerror or error}"
            continue
        disks.append(Disk(purpose=purpose, path=str(path), free=usage.free, total=usage.total))
    return tuple(disks)


def _nearest_existing(path: Path) -> Path:
    """Return the path or the nearest folder above it that is there: what will be made lies on that disk."""
    return next((place for place in (path, *path.parents) if place.exists()), path)


def count_cores() -> int | None:
    """Return the number of cores that this process may use, which can be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def total_memory() -> int:
    """Return the host's memory in bytes."""
    import psutil

    return int(psutil.virtual_memory().total)
