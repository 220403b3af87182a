"""Writing a copy of the data with other columns: how far it is, and a key that stops it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Static

from kerneltui.errors import KerneltuiError
from kerneltui.facts.copying import Copied, copy_data, free_folder
from kerneltui.facts.mapping import ColumnMapping
from kerneltui.text import plain_line


class CopyData(ModalScreen[Copied | None]):
    """Writes the copy as soon as it opens. Its result is what was written, None where it was stopped or failed."""

    BINDINGS = [Binding("escape,q", "stop", "Stop")]
    CSS_PATH = "copy_data.tcss"

    @dataclass
    class Ended(Message):
        """The copy is written, or it is not and `error` says why."""

        copied: Copied | None
        error: KerneltuiError | None = None

    @dataclass
    class Written(Message):
        """So many rows are written."""

        rows: int

        def can_replace(self, message: Message) -> bool:
            """A later count replaces one that was not yet shown."""
            return isinstance(message, CopyData.Written)

    def __init__(self, values: Mapping[str, Any], cwd: Path, trainer: str, mapping: ColumnMapping) -> None:
        super().__init__()
        self._values, self._cwd, self._mapping = dict(values), cwd, mapping
        self._folder = free_folder(self._values, cwd, trainer)
        self._stop = threading.Event()

    def compose(self) -> ComposeResult:
        """Lay out what is written where, over how far it is."""
        with Vertical(id="box") as box:
            box.border_title = "Writing a copy of the data"
            box.border_subtitle = "esc Stop"
            yield Static(Content(f"{plain_line(self._mapping.words)}\n→ {plain_line(self._folder)}"))
            yield Static("reading the first rows …", id="progress")

    def on_mount(self) -> None:
        """Begin."""
        self.copy()

    def on_unmount(self) -> None:
        """End it, whatever took the screen away."""
        self._stop.set()

    @work(thread=True, exclusive=True, group="copy", description="writing a copy of the data")
    def copy(self) -> None:
        """Write the copy."""
        from kerneltui.tui.app import KerneltuiApp

        assert isinstance(self.app, KerneltuiApp)
        try:
            copied = copy_data(
                self.app.session.reader, self._values, self._cwd, self._mapping, self._folder,
                on_rows=self._tell, stop=self._stop.is_set,
            )  # fmt: skip
        except KerneltuiError as error:
            self.post_message(self.Ended(None, error))
        else:
            self.post_message(self.Ended(copied))

    def _tell(self, rows: int) -> None:
        self.post_message(self.Written(rows))

    @on(Written)
    def _written(self, message: Written) -> None:
        self.query_one("#progress", Static).update(Content(f"{message.rows:,} rows"))

    @on(Ended)
    def _ended(self, message: Ended) -> None:
        from kerneltui.tui.app import KerneltuiApp

        app = self.app
        self.dismiss(message.copied)
        if message.error is not None and isinstance(app, KerneltuiApp):
            app.show_error(message.error)

    def action_stop(self) -> None:
        """Stop; nothing is left of the copy."""
        self._stop.set()
        self.query_one("#progress", Static).update("stopping …")
