"""Tables whose rows keep their places and their cursor while their values change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text
from textual.widgets import DataTable

from kerneltui.text import plain_line


def cell(value: str | Text | None, *, right: bool = False) -> Text:
    """Return a cell as plain text, never read as markup; None is a dash. A `Text` keeps its styles if it is plain."""
    if isinstance(value, Text):
        harmless = plain_line(value.plain)
        return value if len(harmless) == len(value.plain.strip()) else Text(harmless, style=value.style, no_wrap=True)
    return Text("–" if value is None else plain_line(value), justify="right" if right else "left", no_wrap=True)


def show_rows(
    table: DataTable[Any],
    headings: Sequence[str] | Mapping[str, int],
    rows: Mapping[str, Sequence[str | Text | None]],
    *,
    right: Sequence[str] = (),
) -> None:
    """Make `table` show `rows` (by a key that stays the same); only cells that changed are written.

    `headings` may say from how many columns of the screen on each is shown. When rows come, go or change places, the
    cursor stays on its row's key.
    """
    if isinstance(headings, Mapping):
        kept = [number for number, least in enumerate(headings.values()) if table.app.size.width >= least]
        headings = [list(headings)[number] for number in kept]
        rows = {key: [values[number] for number in kept] for key, values in rows.items()}
    shown = [str(row.key.value) for row in table.ordered_rows]
    other_columns = [column.value for column in table.columns] != list(headings)
    if other_columns or shown != list(rows):
        current = shown[table.cursor_row] if 0 <= table.cursor_row < len(shown) else None
        table.clear(columns=other_columns)
        for heading in headings if other_columns else ():
            table.add_column(cell(heading, right=heading in right), key=heading)
        for key, values in rows.items():
            table.add_row(
                *(cell(value, right=name in right) for name, value in zip(headings, values, strict=True)), key=key
            )
        if current is not None and current in rows:
            table.move_cursor(row=list(rows).index(current), animate=False)
        return
    for key, values in rows.items():
        for heading, value in zip(headings, values, strict=True):
            new = cell(value, right=heading in right)
            if table.get_cell(key, heading) != new:
                table.update_cell(key, heading, new, update_width=True)
