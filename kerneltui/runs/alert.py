"""What a person should know of a run that goes on: said once, with the reason and the next step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from kerneltui.records import Record


class Alert(Record):
    """Something about a run that a person should know now; `severity` as a finding's, `next_step` is what to do.

    `since` is when it began (ISO 8601) and `why` what it was seen by; None where the text says all.
    """

    id: str
    severity: Literal["block", "warn"]
    text: str
    next_step: str
    since: str | None = None
    why: str | None = None


def alert_words(line: Mapping[str, Any]) -> str:
    """Return a recorded alert as sentences: what, why it is thought so, what to do. Its parts may hold anything.

    The last gets no full stop: it may be a command to copy.
    """
    *parts, last = [str(line[part]) for part in ("text", "why", "next_step") if line.get(part)] or [""]
    return " ".join([*(part if part.endswith((".", "!", "?")) else f"{part}." for part in parts), last])
