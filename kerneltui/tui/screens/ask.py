"""A line to type one thing into."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input


class Ask(ModalScreen[str | None]):
    """Its result is what was typed, None where escape left it."""

    BINDINGS = [Binding("escape", "leave", "Close")]
    CSS_PATH = "choose.tcss"

    def __init__(self, title: str, placeholder: str) -> None:
        super().__init__()
        self._title, self._placeholder = title, placeholder

    def compose(self) -> ComposeResult:
        """Lay out the line."""
        with Vertical(id="box") as box:
            box.border_title = Content(self._title)
            box.border_subtitle = "enter Take   esc Close"
            yield Input(placeholder=self._placeholder)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Take it."""
        event.stop()
        self.dismiss(event.value.strip() or None)

    def action_leave(self) -> None:
        """Take nothing."""
        self.dismiss(None)
