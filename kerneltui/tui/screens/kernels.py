"""The kernels of the Hub, each with its verdict for this server."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.timer import Timer
from textual.widgets import DataTable, Input
from textual.worker import get_current_worker

from kerneltui.advice.catalogue import COMMUNITY
from kerneltui.browse.browser import KernelBrowser
from kerneltui.browse.gather import kept_rows
from kerneltui.browse.records import KernelList, KernelRow, sort_rows
from kerneltui.errors import KerneltuiError
from kerneltui.show import number
from kerneltui.text import plain_line
from kerneltui.tui.keys import KERNELS, bindings
from kerneltui.tui.screens.base import BaseScreen
from kerneltui.tui.widgets.kernel_details import row_details
from kerneltui.tui.widgets.key_footer import KeyFooter
from kerneltui.tui.widgets.lines import Note
from kerneltui.tui.widgets.pane import Pane
from kerneltui.tui.widgets.tables import show_rows
from kerneltui.tui.widgets.verdicts import verdict_cell

# Headings, each with the width of screen from which it is shown.
_COLUMNS = {"": 0, "kernel": 0, "for": 100, "loads": 0, "cached": 0, "downloads": 0, "changed": 150}


# What comes within so many seconds is shown together; and so many rows are added at once.
_MOMENT, _SLICE = 0.1, 20


class KernelsScreen(BaseScreen[None]):
    """The list: kept answers at once, those of the Hub as they come; a row keeps its place while verdicts arrive."""

    KEYS = KERNELS
    PURPOSE = (
        "The kernels of kernels-community with a verdict for this server, attention first, by use. / narrows the list"
        " by name; Enter there searches all publishers."
    )
    BINDINGS = bindings(KERNELS)
    CSS_PATH = "kernels.tcss"
    AUTO_FOCUS = "#kernels"

    @dataclass
    class Changed(Message):
        """Rows came, or said more."""

        def can_replace(self, message: Message) -> bool:
            """All that came is shown at once."""
            return isinstance(message, KernelsScreen.Changed)

    @dataclass
    class Read(Message):
        """The whole list is there."""

        found: KernelList

    def __init__(self) -> None:
        super().__init__()
        self._rows: dict[str, KernelRow] = {}
        self._lock = threading.Lock()
        self._search = ""
        self._problem = ""
        self._due: Timer | None = None
        self._moved = False

    def compose(self) -> ComposeResult:
        """Lay out the list beside what is known of the row under the cursor."""
        yield Note("", id="title")
        yield Input(placeholder="a part of the name; enter searches all publishers, esc shows all again", id="filter")
        with Horizontal(id="body"):
            with Pane(id="list"):
                table: DataTable[Any] = DataTable(id="kernels", cursor_type="row")
                yield table
            with VerticalScroll(id="details", classes="pane", can_focus=False):
                yield Note("", id="details-text")
        yield KeyFooter(id="keys")

    def on_mount(self) -> None:
        """Read the list."""
        self.query_one(KeyFooter).show(KERNELS)
        self.read()

    @work(thread=True, exclusive=True, group="kernels", description="asking the Hub for kernels")
    def read(self, *, everything: bool = False, fresh: float | None = None) -> None:
        """Read the list and judge it; `everything` also what is not for attention, `fresh` as `KernelBrowser`."""
        worker, session, text = get_current_worker(), self.kerneltui.session, self._search
        author = None if text else COMMUNITY
        for row in kept_rows(session.hub, author, text):
            self._take(row)
        try:
            server = session.server(on_progress=self.tell)
            self.tell("asking the Hub for kernels")
            elsewhere = session.recorded is not None
            browser = KernelBrowser(session.asker, session.hub, server, elsewhere=elsewhere, fresh=fresh)
            found = browser.rows(
                author, text=text, everything=everything, on_row=self._take, stop=lambda: worker.is_cancelled
            )
        except KerneltuiError as error:
            self.post_message(self.Failed(error))
            return
        if not worker.is_cancelled:
            self.post_message(self.Read(found))

    def _take(self, row: KernelRow) -> None:
        with self._lock:
            self._rows[row.repository] = row
        self.post_message(self.Changed())

    def on_kernels_screen_changed(self) -> None:
        """Show what came, with what comes in the next moment."""
        self._show_soon()

    def _show_soon(self) -> None:
        if self._due is None:
            self._due = self.set_timer(_MOMENT, self._show)

    def on_kernels_screen_read(self, message: Read) -> None:
        """Show the whole list, and what kept the Hub from telling all."""
        with self._lock:
            self._rows = {row.repository: row for row in message.found.repositories}
        error = message.found.error
        self._problem = f"▲ {plain_line(error.title)}: shown is what was kept or is in the cache" if error else ""
        self.query_one("#list", Pane).wait(None)
        self._show_soon()

    @on(BaseScreen.Progress)
    def _progress(self, message: BaseScreen.Progress) -> None:
        """Say what is being found out."""
        self.query_one("#list", Pane).wait(message.text)

    @on(BaseScreen.Failed)
    def _failed(self, message: BaseScreen.Failed) -> None:
        """Say what happened."""
        self.query_one("#list", Pane).wait(None)
        self.kerneltui.show_error(message.error)

    def on_key(self) -> None:
        """Once the person has moved, the cursor is theirs; before, it is on what stands first."""
        self._moved = True

    def on_data_table_row_highlighted(self) -> None:
        """Say what is known of the row under the cursor."""
        self._explain()

    def on_data_table_row_selected(self) -> None:
        """Enter opens the repository."""
        self.action_open()

    def action_open(self) -> None:
        """Open the repository under the cursor."""
        row = self._current()
        if row is not None:
            from kerneltui.tui.screens.repository import RepositoryScreen

            self.app.push_screen(RepositoryScreen(row.repository))

    def action_filter(self) -> None:
        """Narrow the list by name."""
        self.add_class("-filtering")
        self.query_one("#filter", Input).focus()

    def on_input_changed(self) -> None:
        """Narrow the list at each letter."""
        self._show()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Search all publishers."""
        self._begin(event.value.strip())

    def action_everything(self) -> None:
        """Judge what is not for attention too."""
        self.read(everything=True)

    def action_refresh(self) -> None:
        """Ask the Hub again, also for what was kept."""
        self.read(fresh=0)

    def action_back(self) -> None:
        """Show all again, or leave."""
        if not self.has_class("-filtering"):
            self.dismiss()
            return
        self.remove_class("-filtering")
        self.query_one("#filter", Input).clear()
        self._begin("")

    def _begin(self, search: str) -> None:
        """Show the list of a search, or without one that of kernels-community."""
        self.query_one("#kernels").focus()
        if search == self._search:
            return
        self._search = search
        with self._lock:
            self._rows = {}
        self.read()

    def _shown(self) -> list[KernelRow]:
        wanted = self.query_one("#filter", Input).value.strip().lower()
        with self._lock:
            rows = list(self._rows.values())
        return sort_rows(row for row in rows if wanted in row.repository.lower())

    def _show(self) -> None:
        self._due = None
        table, rows = self.query_one("#kernels", DataTable), self._shown()
        part = rows[: table.row_count + _SLICE]  # all at once would keep a key waiting
        show_rows(table, _COLUMNS, {row.repository: _cells(row) for row in part}, right=("downloads",))
        if not self._moved:
            table.move_cursor(row=0, animate=False)
        if len(part) < len(rows):
            self._show_soon()
        self._show_titles(rows)
        self._explain()

    def _show_titles(self, rows: list[KernelRow]) -> None:
        whose = f"of all publishers with “{plain_line(self._search)}”" if self._search else f"of {COMMUNITY}"
        title = Content.assemble((f"Kernels {whose}  ", "bold $primary"), (self._problem, "$warning"))
        self.query_one("#title", Note).update(title)
        attention = [row for row in rows if row.role == "attention"]
        judged = sum(row.verdict is not None for row in attention)
        counts = f"{len(rows)} kernels · {judged} of {len(attention)} for attention judged"
        self.query_one("#list", Pane).entitle("Kernels", counts)

    def _current(self) -> KernelRow | None:
        table, shown = self.query_one("#kernels", DataTable), self._shown()
        return shown[table.cursor_row] if 0 <= table.cursor_row < len(shown) else None

    def _explain(self) -> None:
        row = self._current()
        empty = "No kernel has that in its name." if self._rows else self._problem or "asking the Hub …"
        self.query_one("#details-text", Note).update(row_details(row) if row else Content(empty))


def _cells(row: KernelRow) -> tuple[str | Text | None, ...]:
    return (
        verdict_cell(row.verdict.kind) if row.verdict else "",
        row.repository.removeprefix(f"{COMMUNITY}/"),
        row.role,
        row.revision or "",
        {"whole": "yes", "part": "in part", None: ""}[row.cached],
        number(row.downloads),
        (row.changed or "")[:10] or None,
    )
