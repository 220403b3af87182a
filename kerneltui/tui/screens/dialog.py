"""Dialogs: an error with its next step, and text that is too long for a pane."""

from __future__ import annotations

from typing import TypeVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from kerneltui.errors import KerneltuiError
from kerneltui.text import plain

Result = TypeVar("Result")


class Dialog(ModalScreen[Result]):
    """A box over the screen, closed by escape or enter."""

    BINDINGS = [Binding("escape,enter,q", "dismiss", "Close")]
    CSS_PATH = "dialog.tcss"

    def __init__(self, title: str, content: Content | str) -> None:
        super().__init__()
        self._box_title = title
        self._content = Content(content) if isinstance(content, str) else content

    @staticmethod
    def text_width(screen: int) -> int:
        """Return how many cells a line of text has on a screen of so many columns (see dialog.tcss)."""
        border, padding, scrollbar = 2, 4, 1
        return min(80, int(screen * 0.94)) - border - padding - scrollbar

    def compose(self) -> ComposeResult:
        """Lay out the box."""
        with VerticalScroll(classes="dialog--box") as box:
            box.border_title = Content(self._box_title).plain
            box.border_subtitle = "esc Close"
            yield Static(self._content)


class ErrorDialog(Dialog[None]):
    """Says what happened, why, and what to do next."""

    def __init__(self, error: KerneltuiError) -> None:
        parts = [Content.styled(plain(error.title), "bold $error")]
        parts += [Content(plain(text)) for text in (error.message, error.hint) if text]
        super().__init__("✖ That did not work", Content("\n\n").join(parts))
