"""Local data files: what can be told of them without a training package."""

from __future__ import annotations

import codecs
import glob
import json
import re
from pathlib import Path
from typing import Any

from kerneltui.errors import UsageError

# How much of a file is looked at, in bytes: enough for the first rows, the same for a small file and a large one.
_HEAD = 1 << 20
# `datasets` unpacks a file by how it begins, whatever its name (datasets.utils.extract): gzip, bzip2, xz, zstd, lz4,
# zip.
_PACKED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18", b"PK\x03\x04")
# It reads JSON in pieces of this many bytes (JsonConfig.chunksize), each cut at the end of a line.
_PIECE = 10 << 20

# What `datasets` reads by the ends of names; behind them may stand a compression.
BUILDERS = {
    ".json": "json", ".jsonl": "json", ".ndjson": "json", ".csv": "csv", ".parquet": "parquet",
    ".arrow": "arrow", ".txt": "text",
}  # fmt: skip
_PACKED_NAMES = (".gz", ".bz2", ".xz", ".zst", ".lz4")


def builder_of(path: str) -> str | None:
    """Return the builder of `datasets` for a file of this name, None where its ending says nothing."""
    suffixes = Path(path).suffixes
    if suffixes and suffixes[-1] in _PACKED_NAMES:
        suffixes.pop()
    return BUILDERS.get(suffixes[-1].lower()) if suffixes else None


def check_local_data(values: dict[str, Any], cwd: Path) -> None:
    """Check that the local files named by TRL's `datasets` or `dataset_name` are there and, if JSON, start as JSON.

    Raises UsageError that names the file and the line. Hub data sets are not looked at.
    """
    for entry in values.get("datasets") or []:
        if isinstance(entry, dict) and entry.get("data_files"):
            for pattern in _patterns(entry["data_files"]):
                _check_files(pattern, cwd, str(entry.get("path")))
    name = values.get("dataset_name")
    if isinstance(name, str) and not values.get("datasets"):
        _check_name(name, cwd)


def _check_name(name: str, cwd: Path) -> None:
    """Check a `dataset_name` that can only be a path: a folder, as `datasets` takes it, without a meaning for ~."""
    if (cwd / name).is_file():
        files = glob.escape(name)
        files = files if re.fullmatch(r"[\w./-]+", files) else json.dumps(files)
        raise UsageError(
            f"dataset_name is a file: {name}",
            "It takes a folder or a data set on the Hub.",
            f"Write instead: datasets: [{{path: {builder_of(name) or 'json'}, data_files: {files}}}]",
        )
    if name.startswith(("/", ".", "~")) and not (cwd / name).exists():
        raise UsageError(
            f"No data set at {name}",
            f"{cwd / name} does not exist.",
            _unexpanded(name, cwd) or "Check dataset_name (a folder or a Hub name).",
        )


def _unexpanded(path: str, cwd: Path) -> str:
    """Return the hint for a path with ~, which the shell knows and `datasets` does not; empty where it is none."""
    expanded = Path(path).expanduser() if path.startswith("~") else cwd / path
    return f"~ has no meaning there; write {expanded}" if path.startswith("~") and expanded.exists() else ""


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
    found = sorted(glob.glob(pattern, root_dir=cwd, recursive=True))
    if not found and (cwd / pattern).exists():
        raise UsageError(
            f"The path {pattern} is read as a pattern",
            "The characters * ? [ ] in data_files have a meaning, and nothing matches.",
            f"Write it as {glob.escape(pattern)}",
        )
    if not found:
        raise UsageError(
            f"No data file at {pattern}",
            f"Nothing matches {cwd / pattern}.",
            _unexpanded(pattern, cwd) or "Check data_files in the configuration.",
        )
    if builder == "json":
        for name in found:
            _check_json(cwd / name)


def _check_json(path: Path) -> None:
    """Read the head of a file as JSON objects one after another, or as one list where it starts with a bracket."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
            size = path.stat().st_size
    except OSError as error:
        raise UsageError(
            f"Cannot read the data file {path}",
            error.strerror or str(error),
            "Check the path and its permissions.",
        ) from error
    if head.startswith(_PACKED):
        return
    whole = len(head) == size
    try:
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(head, final=whole)
    except UnicodeDecodeError as error:
        raise UsageError(f"The data file {path} is not UTF-8 text", str(error), "Save it as UTF-8.") from error
    if not text.strip():
        raise UsageError(f"The data file {path} is empty", hint="Give a file with at least one row.")
    if whole or not text.lstrip().startswith("["):
        _check_rows(text, path, whole=whole, large=size > _PIECE)


def _check_rows(text: str, path: Path, *, whole: bool, large: bool) -> None:
    """Decode one value after another; where the text is not the `whole` file, its end may be cut."""
    decoder = json.JSONDecoder()
    first = at = _skip_space(text, 0)
    while at < len(text):
        try:
            value, end = decoder.raw_decode(text, at)
        except ValueError as error:
            wrong = error.pos if isinstance(error, json.JSONDecodeError) else at
            if not whole and "\n" not in text[wrong:]:
                return  # cut
            raise _not_json(path, text, wrong, error) from error
        if not isinstance(value, dict) and not (isinstance(value, list) and at == first):
            raise _not_json(path, text, at, f"{text[at:end][:40]} is no object")
        if large and "\n" in text[at:end]:
            raise _not_json(path, text, at, "in a file of more than 10 MB an object must not span lines")
        at = _skip_space(text, end)


def _skip_space(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _not_json(path: Path, text: str, at: int, why: object) -> UsageError:
    said = why.msg if isinstance(why, json.JSONDecodeError) else why
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    return UsageError(
        f"The data file {path} is not JSON",
        f"Line {line}, column {column}: {said}.",
        "Each line must be one JSON object, or the whole file one list of objects.",
    )
