"""One kernel repository: its branches, tags and newest commits, each judged, and its card."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import DataTable, Static
from textual.worker import get_current_worker

from kerneltui.browse.browser import KernelBrowser
from kerneltui.browse.records import RepositoryView, RevisionRow
from kerneltui.errors import KerneltuiError
from kerneltui.text import plain_line
from kerneltui.tui.keys import REPOSITORY, bindings
from kerneltui.tui.screens.base import BaseScreen
from kerneltui.tui.widgets.kernel_details import revision_details
from kerneltui.tui.widgets.key_footer import KeyFooter
from kerneltui.tui.widgets.tables import show_rows
from kerneltui.tui.widgets.verdicts import verdict_cell

_HEADINGS = ("", "revision", "commit", "date", "state")


class RepositoryScreen(BaseScreen[None]):
    """Newest first; the branch that the installed transformers takes is marked."""

    KEYS = REPOSITORY
    PURPOSE = (
        "The revisions of one kernel with a verdict each. A pin to a branch still gets builds for a newer torch; one to"
        " a commit never changes."
    )
    BINDINGS = bindings(REPOSITORY)
    CSS_PATH = "kernels.tcss"
    AUTO_FOCUS = "#revisions"

    @dataclass
    class Read(Message):
        """The repository was read."""

        view: RepositoryView

    def __init__(self, repository: str) -> None:
        super().__init__()
        self.repository = repository
        self._view: RepositoryView | None = None

    def compose(self) -> ComposeResult:
        """Lay out the revisions beside the verdict on the one under the cursor."""
        yield Static("", id="title")
        with Horizontal(id="body"):
            table: DataTable[Any] = DataTable(id="revisions", cursor_type="row", classes="pane")
            table.border_title = "Revisions"
            yield table
            with VerticalScroll(id="details", classes="pane"):
                yield Static("", id="details-text")
        yield KeyFooter(id="keys")

    def on_mount(self) -> None:
        """Read the repository."""
        self.query_one(KeyFooter).show(REPOSITORY)
        self._say("asking the Hub …")
        self.read()

    @work(thread=True, exclusive=True, group="repository", description="asking the Hub for a kernel")
    def read(self) -> None:
        """Read the repository and judge its revisions."""
        worker, session = get_current_worker(), self.kerneltui.session
        try:
            server = session.server()
            browser = KernelBrowser(session.asker, session.hub, server, elsewhere=session.recorded is not None)
            view = browser.view(self.repository, stop=lambda: worker.is_cancelled)
        except KerneltuiError as error:
            self.post_message(self.Failed(error))
            return
        if not worker.is_cancelled:
            self.post_message(self.Read(view))

    def on_repository_screen_read(self, message: Read) -> None:
        """Show the revisions; the one that loads has the cursor."""
        self._view = message.view
        self._say("")
        table = self.query_one("#revisions", DataTable)
        revisions = self._revisions()
        show_rows(table, _HEADINGS, {f"{it.revision.kind} {it.revision.name}": _cells(it) for it in revisions})
        default = next((number for number, it in enumerate(revisions) if it.default), 0)
        table.move_cursor(row=default, animate=False)
        self._explain()

    @on(BaseScreen.Failed)
    def _failed(self, message: BaseScreen.Failed) -> None:
        """Say what happened."""
        self._say(f"✖ {plain_line(message.error.title)}")
        self.kerneltui.show_error(message.error)

    def on_data_table_row_highlighted(self) -> None:
        """Say the verdict on the revision under the cursor."""
        self._explain()

    def action_copy(self) -> None:
        """Copy the pin to the revision under the cursor, as `attn_implementation` takes it."""
        chosen = self._current()
        if chosen is None:
            return
        pin = f"{self.repository}@{chosen.revision.name}"
        self.app.copy_to_clipboard(pin)
        self.notify(pin, title="Copied", markup=False)

    def action_refresh(self) -> None:
        """Ask again."""
        self._say("asking the Hub …")
        self.read()

    def action_back(self) -> None:
        """Leave."""
        self.dismiss()

    def _revisions(self) -> list[RevisionRow]:
        return [*self._view.revisions, *self._view.commits] if self._view else []

    def _current(self) -> RevisionRow | None:
        at, revisions = self.query_one("#revisions", DataTable).cursor_row, self._revisions()
        return revisions[at] if 0 <= at < len(revisions) else None

    def _say(self, text: str) -> None:
        title = Content.assemble((f"{plain_line(self.repository)} ", "bold $primary"), (text, "$secondary"))
        self.query_one("#title", Static).update(title)

    def _explain(self) -> None:
        chosen = self._current()
        if chosen is not None and self._view is not None:
            self.query_one("#details-text", Static).update(revision_details(self._view, chosen))


def _cells(row: RevisionRow) -> tuple[str | Text | None, ...]:
    commit = row.revision.kind == "commit"
    marks = [mark for mark, holds in (("default", row.default), ("cached", row.cached == "whole")) if holds]
    return (
        verdict_cell(row.verdict.kind),
        row.revision.name[:8] if commit else row.revision.name,
        "" if commit else row.revision.commit[:8],
        (row.revision.date or "")[:10] or None,
        ", ".join(marks),
    )
