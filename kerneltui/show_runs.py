"""Plain lines about several runs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from kerneltui.runs.compare import Comparison, Row
from kerneltui.runs.orphans import Orphans
from kerneltui.show import table_lines
from kerneltui.text import cut_middle, plain_line

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


def orphan_lines(orphans: Sequence[Orphans]) -> list[str]:
    """Return one line for each run that has left processes, with the command that ends them."""
    return [plain_line(_orphan_line(found)) for found in orphans]


def _orphan_line(found: Orphans) -> str:
    path, pids = Path(found.path), ", ".join(map(str, found.pids))
    lives = f"{len(found.pids)} processes still live" if len(found.pids) > 1 else "1 process still lives"
    if not path.exists():
        return f"✖ {path.name} is gone, but {lives}: kill {pids.replace(',', '')}"
    return f"✖ {path.name} has ended, but {lives} ({pids}): kerneltui stop {shlex.quote(found.path)} --now"


def _or_none(rows: tuple[Row, ...], count: int) -> tuple[Row, ...]:
    return rows or (Row(subject="no difference", values=("",) * count),)
