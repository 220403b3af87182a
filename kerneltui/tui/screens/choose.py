"""A list to choose one name from."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from kerneltui.text import plain_line


class Choose(ModalScreen[str | None]):
    """Its result is the name that was taken with enter, None where escape left it."""

    BINDINGS = [Binding("escape,q", "leave", "Close")]
    CSS_PATH = "choose.tcss"

    def __init__(self, title: str, names: Sequence[str], current: str | None = None) -> None:
        super().__init__()
        self._title, self._names, self._current = title, list(names), current

    def compose(self) -> ComposeResult:
        """Lay out the names."""
        with Vertical(id="box") as box:
            box.border_title = Content(plain_line(self._title))
            box.border_subtitle = "enter Take   esc Close"
            yield OptionList(*(Option(Content(plain_line(name))) for name in self._names))

    def on_mount(self) -> None:
        """Put the cursor on the present one."""
        names = self.query_one(OptionList)
        names.highlighted = self._names.index(self._current) if self._current in self._names else 0
        names.focus()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Take it."""
        event.stop()
        self.dismiss(self._names[event.option_index])

    def action_leave(self) -> None:
        """Take none."""
        self.dismiss(None)
