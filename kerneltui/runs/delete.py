"""Removing a run that has ended, with all that it holds."""

from __future__ import annotations

import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

from kerneltui.errors import KerneltuiError
from kerneltui.runs.checkpoints import size_of
from kerneltui.runs.control import watch_over
from kerneltui.runs.directory import ACTIVE, RunDirectory
from kerneltui.runs.processes import processes_of


@dataclass(frozen=True)
class Deletion:
    """What would be removed: a run's directory and its size in bytes; `kept` is an output that lies elsewhere."""

    run: RunDirectory
    size: int
    kept: str | None


def plan_deletion(run: RunDirectory) -> Deletion:
    """Return what a deletion would remove. Raises KerneltuiError for a run that is active or has living processes."""
    try:
        phase = watch_over(run).phase
    except KerneltuiError:
        phase = "lost"  # a run whose record cannot be read can be removed
    if phase in ACTIVE or processes_of(run.path):
        raise KerneltuiError(
            f"{run.name} is not removed",
            "It has not ended." if phase in ACTIVE else "Processes of it still live.",
            f"End it first: kerneltui stop {shlex.quote(str(run.path))} --now",
        )
    kept = None
    try:
        output = Path(run.read_run().output_dir)
        kept = None if output.is_relative_to(run.path) or not output.exists() else str(output)
    except (KerneltuiError, OSError):
        pass
    return Deletion(run, size_of(run.path), kept)


def delete(deletion: Deletion) -> None:
    """Remove a run's directory; links in it are removed, not followed. Raises KerneltuiError."""
    run = plan_deletion(deletion.run).run  # it may have been resumed since
    try:
        shutil.rmtree(run.path)
    except OSError as error:
        raise KerneltuiError(
            f"{run.name} is not wholly removed", f"{error.filename}: {error.strerror}", "Remove the rest by hand."
        ) from error
