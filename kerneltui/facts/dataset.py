"""The data: what can be told of it before TRL loads it."""

from __future__ import annotations

import glob
import json
from pathlib import Path
from typing import Any

from kerneltui.errors import UsageError

# How much of a file is looked at, in bytes: enough for the first rows, the same for a small file and a large one.
_HEAD = 1 << 20


def check_local_data(values: dict[str, Any], cwd: Path) -> None:
    """Check that the local files named by TRL's `datasets` or `dataset_name` are there and, if JSON, start as JSON.

    Raises UsageError that names the file and the line. Hub data sets are not looked at.
    """
    for entry in values.get("datasets") or []:
        if isinstance(entry, dict) and entry.get("data_files"):
            for pattern in _patterns(entry["data_files"]):
                _check_files(pattern, cwd, str(entry.get("path")))
    name = values.get("dataset_name")
    if isinstance(name, str) and name.startswith(("/", ".", "~")) and not (cwd / Path(name).expanduser()).exists():
        raise UsageError(
            f"No data set at {name}",
            f"{cwd / Path(name).expanduser()} does not exist.",
            "Check dataset_name (a folder or a Hub name).",
        )


def _patterns(files: object) -> list[str]:
    if isinstance(files, str):
        return [files]
    if isinstance(files, dict):
        return [pattern for value in files.values() for pattern in _patterns(value)]
    return [pattern for value in files for pattern in _patterns(value)] if isinstance(files, list) else []


def _check_files(pattern: str, cwd: Path, builder: str) -> None:
    if "://" in pattern:
        return
    # `datasets` reads the path as a pattern, relative to the working directory.
    found = sorted(glob.glob(str(Path(pattern).expanduser()), root_dir=cwd, recursive=True))
    if not found and (cwd / pattern).exists():
        raise UsageError(
            f"The path {pattern} is read as a pattern",
            "The characters * ? [ ] in data_files have a meaning, and nothing matches.",
            f"Write it as {glob.escape(pattern)}",
        )
    if not found:
        raise UsageError(
            f"No data file at {pattern}", f"Nothing matches {cwd / pattern}.", "Check data_files in the configuration."
        )
    if builder == "json":
        for name in found:
            _check_json(cwd / name)


def _check_json(path: Path) -> None:
    """Read the head of a file as JSON lines, or as one JSON document where it starts with a bracket."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
            whole = not file.read(1)
    except OSError as error:
        raise UsageError(
            f"Cannot read the data file {path}",
            error.strerror or str(error),
            "Check the path and its permissions.",
        ) from error
    lines = head.split(b"\n")
    if not whole:
        lines.pop()  # the last one is cut
    if head.lstrip().startswith(b"["):
        _decode(head, path, 1) if whole else None
        return
    if whole and head.lstrip().startswith(b"{") and _is_json(head):
        return
    for number, line in enumerate(lines, start=1):
        if line.strip():
            _decode(line, path, number)
    if whole and not head.strip():
        raise UsageError(f"The data file {path} is empty", hint="Give a file with at least one row.")


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except ValueError:
        return False
    return True


def _decode(data: bytes, path: Path, line: int) -> None:
    try:
        json.loads(data)
    except ValueError as error:
        raise UsageError(
            f"The data file {path} is not JSON",
            f"Line {line}: {error}.",
            "Each line must be one JSON object, or the whole file one list of objects.",
        ) from error
