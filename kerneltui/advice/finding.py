"""Findings: what is wrong or better, why, and what mends it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from kerneltui.facts.mapping import ColumnMapping
from kerneltui.records import Record

Severity = Literal["block", "warn", "note"]
Origin = Literal["asked", "observed", "known"]

ORDER: tuple[Severity, ...] = ("block", "warn", "note")
"""The severities, the worst first."""

SIGNS: dict[str, str] = {"ready": "✔", "block": "✖", "warn": "▲", "note": "·", "unknown": "…"}


class Fix(Record):
    """What mends a finding: changes to the configuration, a `command` to run, or a copy of the data by a `mapping`.

    `changes` maps a field to its new value, None removes the field; `nulls` are fields to be set to null, which is
    not the same where TRL's default is another value (max_length).
    """

    label: str
    changes: dict[str, Any] = {}
    nulls: tuple[str, ...] = ()
    command: str | None = None
    mapping: ColumnMapping | None = None

    @property
    def by_key(self) -> bool:
        """Whether the wizard can apply it: it changes the plan, at once or once a copy is written."""
        return bool(self.changes or self.nulls or self.mapping)


class Finding(Record):
    """One finding about a plan or a server.

    `severity`: "block" will fail, or will silently train the wrong thing; "warn"; "note". `origin`: "asked" (a
    library said it), "observed" (seen in a run or a proof), "known" (a public report or a document with a version
    range). `source` is where that can be read. `fixes` are alternatives, the best first.
    """

    id: str
    severity: Severity
    title: str
    why: str
    origin: Origin
    source: str
    fixes: tuple[Fix, ...] = ()


def is_blocked(findings: Iterable[Finding]) -> bool:
    """Return whether one of the findings says that it will fail, or silently train the wrong thing."""
    return any(finding.severity == "block" for finding in findings)
