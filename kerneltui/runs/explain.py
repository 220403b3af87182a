"""What an ending means, and the way out: by torch's own numbers where a GPU was full, else by a table."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from typing import Any

from kerneltui.records import Record
from kerneltui.runs.out_of_memory import cause_of, read_shortage, remedy_for
from kerneltui.text import plain_line

_LONGEST = 300


class Explanation(Record):
    """Why a run ended, the cause first; `way_out` is what to do, `changes` the settings of TRL that do it."""

    id: str
    cause: str
    way_out: str
    changes: dict[str, Any] = {}


class KnownEnding(Record):
    """A row of `known_endings.toml`."""

    id: str
    message: str
    cause: str
    way_out: str
    source: str
    type: str = ""


@cache
def known_endings() -> tuple[KnownEnding, ...]:
    """Return the table, in its order."""
    text = resources.files("kerneltui.runs").joinpath("known_endings.toml").read_text(encoding="utf-8")
    return tuple(KnownEnding(**row) for row in tomllib.loads(text)["ending"])


def explain_exception(
    kind: str, message: str, traceback: str = "", begin: Mapping[str, Any] | None = None
) -> Explanation | None:
    """Return what an exception of the training process means, None where it must speak for itself.

    `begin` is the `train_begin` event, empty or None where training had not begun.
    """
    if shortage := read_shortage(message, traceback):
        remedy = remedy_for(shortage, begin or {})
        return Explanation(
            id="out_of_memory", cause=cause_of(shortage), way_out=remedy.words, changes=dict(remedy.changes)
        )
    name = kind.rpartition(".")[2]
    for known in known_endings():
        if (not known.type or re.fullmatch(known.type, name)) and re.search(known.message, message):
            return Explanation(id=known.id, cause=_filled(known.cause, message), way_out=known.way_out)
    return None


def explain_events(events: Iterable[dict[str, Any]], printed: str) -> Explanation | None:
    """Return what the first failure among an attempt's events means, else the exception that was `printed`."""
    begin: Mapping[str, Any] = {}
    for event in events:
        if event.get("event") == "train_begin":
            begin = event
        error = event.get("error")
        if event.get("event") == "process_end" and event.get("outcome") == "failed" and isinstance(error, dict):
            told = [str(error.get(part) or "") for part in ("type", "message", "traceback")]
            return explain_exception(told[0], told[1], told[2], begin)
    kind, _, message = printed.partition(": ")
    return explain_exception(kind, message, "", begin) if message else None


def _filled(cause: str, message: str) -> str:
    lines = plain_line(message.strip().partition("\n")[0])
    return cause.replace("{message}", lines if len(lines) <= _LONGEST else f"{lines[:_LONGEST]}…")
