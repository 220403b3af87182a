"""Where things lie on disk."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

import platformdirs

from kerneltui.errors import KerneltuiError, UsageError

_RUN_NAME = re.compile(r"\w[\w.+-]{0,63}")


def runs_directory(given: Path | None = None) -> Path:
    """Return the directory that holds runs: `given`, else `$KERNELTUI_RUNS`, else `./kerneltui-runs`; absolute."""
    chosen = given or Path(os.environ.get("KERNELTUI_RUNS") or "kerneltui-runs")
    return chosen.expanduser().absolute()


def state_directory() -> Path:
    """Return the directory for what kerneltui remembers between calls (XDG state home); it may not exist yet."""
    return platformdirs.user_state_path("kerneltui")


def cache_directory() -> Path:
    """Return the directory for what can be made again (XDG cache home); it may not exist yet."""
    return platformdirs.user_cache_path("kerneltui")


def config_directory() -> Path:
    """Return the directory for what the person writes for kerneltui (XDG config home); it may not exist."""
    return platformdirs.user_config_path("kerneltui")


def hub_answers() -> Path:
    """Return the directory of the Hub's answers that are kept between calls; it may not exist yet."""
    return cache_directory() / "hub"


def benchmarks_directory() -> Path:
    """Return the directory of the benchmarks that were made on this machine (XDG data home); it may not exist yet."""
    return platformdirs.user_data_path("kerneltui") / "benchmarks"


def check_run_name(name: str) -> str:
    """Return `name` if it can be the name of a run's directory; raises UsageError.

    Letters and digits of any script, `_`, `.`, `+` and `-`, at most 64, no leading punctuation: such a name is one
    path component, cannot leave the runs directory, and needs no quotes in a shell.
    """
    if not _RUN_NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot name a run",
            "A run name starts with a letter, a digit or _, and has only letters, digits, _, ., + and - (at most 64).",
            "Give another name with --name.",
        )
    return name


def write_atomically(path: Path, data: bytes) -> None:
    """Replace `path` by `data` so that a reader sees the old content or the new, never a part.

    Readable by the owner alone. Raises KerneltuiError when the directory cannot be written or the disk is full.
    """
    temporary = ""
    try:
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except OSError as error:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
        raise KerneltuiError(
            f"Cannot write {path}",
            error.strerror or str(error),
            "Check permissions and free space, or choose another directory with --runs-dir.",
        ) from error
