"""What a person keeps beside a run: tags and a remark, in `notes.toml`."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable

from kerneltui.errors import UsageError
from kerneltui.paths import write_atomically
from kerneltui.records import Record
from kerneltui.runs.directory import RunDirectory
from kerneltui.text import plain_line

_TAG = re.compile(r"\w[\w.+-]{0,31}")


class Notes(Record):
    """Tags, and a remark; empty where the person has kept nothing."""

    tags: tuple[str, ...] = ()
    remark: str = ""


def read_notes(run: RunDirectory) -> Notes:
    """Return a run's notes; none where the file is missing or cannot be read: a person may have edited it."""
    try:
        raw = tomllib.loads((run.path / "notes.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return Notes()
    tags = raw.get("tags")
    kept = (plain_line(tag) for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else ()
    return Notes(tags=tuple(tag for tag in kept if tag), remark=plain_line(str(raw.get("remark") or "")))


def change_notes(
    run: RunDirectory, *, add: Iterable[str] = (), remove: Iterable[str] = (), remark: str | None = None
) -> Notes:
    """Add and remove tags, replace the remark where one is given, and return the notes.

    Raises UsageError for what is no tag, KerneltuiError where it cannot be written.
    """
    old, add, remove = read_notes(run), list(add), set(remove)
    for tag in add:
        if not _TAG.fullmatch(tag):
            words = "A tag has letters, digits, _, ., + and -, at most 32, and begins with a letter, a digit or _."
            raise UsageError(f"{tag!r} is no tag", words, "Choose another.")
    tags = [tag for tag in dict.fromkeys((*old.tags, *add)) if tag not in remove]
    notes = Notes(tags=tuple(tags), remark=old.remark if remark is None else plain_line(remark))
    # TOML's basic strings and arrays of them are written as JSON writes them.
    text = "".join(f"{name} = {json.dumps(value)}\n" for name, value in (("tags", tags), ("remark", notes.remark)))
    write_atomically(run.path / "notes.toml", text.encode("utf-8"))
    return notes
