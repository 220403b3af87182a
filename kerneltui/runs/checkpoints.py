"""The checkpoints of a run: where they are, how large, and from which of them training can go on."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from kerneltui.runs.checkpoint_files import STATE, faults_of
from kerneltui.runs.directory import RunDirectory, RunRecord, read_lines

# transformers.trainer_utils.PREFIX_CHECKPOINT_DIR, and the step.
_FOLDER = re.compile(r"checkpoint-(\d+)")


@dataclass(frozen=True)
class JudgedCheckpoint:
    """A checkpoint: its step, its size in bytes, and `faults`, why training cannot go on from it."""

    path: Path
    step: int
    size: int
    faults: tuple[str, ...]


def judge_checkpoints(run: RunDirectory, record: RunRecord) -> tuple[JudgedCheckpoint, ...]:
    """Return the checkpoints of a run, the one of the latest step first, down to the first that is good.

    Those in its output directory count, and those that its events name. What lay there before the run is none of its.
    """
    events = read_lines(run.events)
    begun = [event for event in events if event.get("event") == "train_begin"]
    ranks = next((event["world_size"] for event in reversed(begun) if isinstance(event.get("world_size"), int)), None)
    folders = {record.output_dir, *(event["output_dir"] for event in begun if isinstance(event.get("output_dir"), str))}
    named = {Path(event["path"]) for event in events if _names_checkpoint(event)}
    found = {path: int(match[1]) for path in {*named, *_inside(folders)} if (match := _FOLDER.fullmatch(path.name))}
    judged = []
    for path, step in sorted(found.items(), key=lambda item: item[1], reverse=True):
        if not path.is_dir():
            continue  # save_total_limit has removed it
        strange = path not in named and _older(path, record.time)
        faults = ("it was there before this run was launched",) if strange else faults_of(path, step, ranks)
        judged.append(JudgedCheckpoint(path, step, size_of(path), faults))
        if not faults:
            break
    return tuple(judged)


def size_of(folder: Path) -> int:
    """Return the bytes of all files in a folder; what vanishes or cannot be read meanwhile counts nothing."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.lstat().st_size if path.is_file() else 0
        except OSError:
            continue
    return total


def _names_checkpoint(event: dict[str, Any]) -> bool:
    return event.get("event") == "checkpoint" and isinstance(event.get("path"), str)


def _inside(folders: Iterable[str]) -> list[Path]:
    found: list[Path] = []
    for folder in folders:
        try:
            found += Path(folder).iterdir()
        except OSError:
            continue
    return found


def _older(path: Path, time: str) -> bool:
    """Whether a checkpoint was written before `time`, by the file that the Trainer writes last."""
    try:
        written = max((path / STATE).stat().st_mtime if (path / STATE).exists() else 0.0, path.stat().st_mtime)
        return written < datetime.fromisoformat(time).timestamp()
    except (OSError, ValueError):
        return False
