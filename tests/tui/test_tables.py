"""Tables that change under the cursor: rows that come, other columns for another width."""

from __future__ import annotations

import asyncio
from typing import Any

from textual.app import App, ComposeResult
from textual.widgets import DataTable

from kerneltui.tui.widgets.tables import show_rows

ROWS = {"a": ("1", "x"), "b": ("2", "y")}


class Table(App[None]):
    def compose(self) -> ComposeResult:
        yield DataTable(cursor_type="row")


def shown(table: DataTable[Any]) -> list[list[str]]:
    return [[str(cell) for cell in table.get_row_at(number)] for number in range(table.row_count)]


def test_columns_follow_the_width_of_the_screen_and_the_cursor_its_row() -> None:
    async def play() -> None:
        app = Table()
        async with app.run_test(size=(120, 20)) as pilot:
            table = app.query_one(DataTable)
            headings = {"number": 0, "letter": 100}
            show_rows(table, headings, ROWS)
            table.move_cursor(row=1, animate=False)
            assert shown(table) == [["1", "x"], ["2", "y"]]
            await pilot.resize_terminal(80, 20)
            show_rows(table, headings, {"new": ("0", "w"), **ROWS})
            assert shown(table) == [["0"], ["1"], ["2"]]
            assert table.cursor_row == 2

    asyncio.run(play())
