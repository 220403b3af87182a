"""Plain lines about several runs."""

from __future__ import annotations

from kerneltui.runs.compare import Comparison, Row
from kerneltui.show import table_lines
from kerneltui.text import cut_middle

_WIDTH = 40


def comparison_lines(found: Comparison) -> list[str]:
    """Return the comparison as a table: what was asked, what ran, and what came of it."""
    parts = {"asked": found.asked, "ran": found.ran, "came of it": found.results}
    rows = [
        ("" if place else title, row.subject, *(value and cut_middle(value, _WIDTH) for value in row.values))
        for title, group in parts.items()
        for place, row in enumerate(_or_none(group, len(found.names)))
    ]
    return [*table_lines(("", "", *found.names), rows), "", f"{found.same} more are the same."]


def _or_none(rows: tuple[Row, ...], count: int) -> tuple[Row, ...]:
    return rows or (Row(subject="no difference", values=("",) * count),)
