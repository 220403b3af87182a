"""Asking for one line of text."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static


class AskLine(ModalScreen[str]):
    """Asks for a line, which stands there as it was; its result is the line, None where it was left."""

    BINDINGS = [Binding("escape", "dismiss", "Close")]
    CSS_PATH = "dialog.tcss"

    def __init__(self, title: str, words: str, value: str = "") -> None:
        super().__init__()
        self._question_title = title
        self._words = words
        self._value = value

    def compose(self) -> ComposeResult:
        """Lay out one line to type in."""
        with Vertical(classes="dialog--box") as box:
            box.border_title = Content(self._question_title)
            box.border_subtitle = "enter Take it   esc Close"
            yield Static(Content(self._words))
            yield Input(self._value, id="line")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Give the line."""
        event.stop()
        self.dismiss(event.value.strip())
