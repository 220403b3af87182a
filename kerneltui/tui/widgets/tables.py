"""Tables whose rows keep their places and their cursor while their values change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from rich.text import Text
from textual.widgets import DataTable
from textual.widgets.data_table import ColumnKey

from kerneltui.text import plain_line

# What each table shows, as it was given: most of it is the same the next time.
_SHOWN: WeakKeyDictionary[DataTable[Any], dict[str, tuple[str | Text | None, ...]]] = WeakKeyDictionary()


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
    current = shown[table.cursor_row] if 0 <= table.cursor_row < len(shown) else None
    start_anew = other_columns or shown != list(rows)[: len(shown)]
    if start_anew:
        table.clear(columns=other_columns)
        for heading in headings if other_columns else ():
            table.add_column(cell(heading, right=heading in right), key=heading)
    before = {} if start_anew else {key: values for key, values in _SHOWN.get(table, {}).items() if key in shown}
    for key, values in rows.items():
        named = dict(zip(headings, values, strict=True))
        if key in before:
            changed = {name: new for (name, new), old in zip(named.items(), before[key], strict=True) if new != old}
            _update(table, key, changed, right)
        else:
            table.add_row(*(cell(value, right=name in right) for name, value in named.items()), key=key)
    _SHOWN[table] = {key: tuple(values) for key, values in rows.items()}
    if start_anew and current is not None and current in rows:
        table.move_cursor(row=list(rows).index(current), animate=False)


def _update(table: DataTable[Any], key: str, values: Mapping[str, str | Text | None], right: Sequence[str]) -> None:
    """Write cells of a row; a column gets wider for them, and never narrower."""
    for heading, value in values.items():
        new = cell(value, right=heading in right)
        wider = new.cell_len > table.columns[ColumnKey(heading)].content_width
        table.update_cell(key, heading, new, update_width=wider)
