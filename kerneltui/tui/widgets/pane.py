"""A pane: its title stands in its top border, its count or state at the right end of the same line."""

from __future__ import annotations

from time import monotonic
from typing import Any, Self

from rich.cells import cell_len
from textual.containers import VerticalScroll
from textual.content import Content
from textual.geometry import Region
from textual.style import Style
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import ContentSwitcher

from kerneltui.text import cut_middle, duration, plain_line

# For how long, in seconds, a wait goes on before the title says since when.
_SOON = 3.0
# Corners, the line beside them, and the blanks around the title.
_AROUND_TITLE = 6


class Pane(Widget):
    """Base of widgets with a border; give it a title and a state with `entitle`.

    Both are shown as they are, never read as markup.
    """

    def __init__(self, *children: Widget, id: str | None = None, classes: str = "pane", **options: Any) -> None:
        super().__init__(*children, id=id, classes=classes, **options)
        self._title = ""
        self._state = Content("")
        self._only_title = False
        self._awaited: str | None = None
        self._waits_since = 0.0
        self._clock: Timer | None = None

    def entitle(self, title: str, state: str | Content = "") -> None:
        """Show `title` on the left and `state` on the right; drawn anew only when one of them changed."""
        content = Content(state) if isinstance(state, str) else state
        if title != self._title or not content.is_same(self._state):
            self._title, self._state = title, content
            self._draw_title()

    def wait(self, what: str | None) -> None:
        """Show on the right what is being found out, and where that takes a while since when; None: nothing more."""
        if what == self._awaited:
            return
        self._awaited, self._waits_since = what, monotonic()
        if what is not None and self._clock is None:
            self._clock = self.set_interval(1, self._draw_title)
        elif what is None and self._clock is not None:
            self._clock.stop()
            self._clock = None
        self._draw_title()

    @property
    def title_text(self) -> str:
        """The title and the state as plain text."""
        return f"{self._title} {self._whole_state().plain}".strip()

    def on_resize(self) -> None:
        """Fit the title to the new width."""
        self._draw_title()

    def on_focus(self) -> None:
        """Draw the line between title and state in the colour of the focused border."""
        self.call_after_refresh(self._draw_title)

    def on_blur(self) -> None:
        """Draw the line between title and state in the colour of the border."""
        self.call_after_refresh(self._draw_title)

    def refresh(self, *regions: Region, **options: Any) -> Self:
        """Draw the widget anew; of a change of the title only the top border."""
        if self._only_title and not regions:
            left, top = self.content_offset
            regions = (Region(-left, -top, self.outer_size.width, 1),)
        return super().refresh(*regions, **options)

    def _draw_title(self) -> None:
        room = self.outer_size.width - _AROUND_TITLE
        if not self.is_attached or room < 4:
            return
        self._only_title = True
        self.border_title = self._title_line(room)
        self._only_title = False

    def _title_line(self, room: int) -> Content:
        state = self._whole_state()
        if not state:
            return Content(cut_middle(self._title, room))
        title = cut_middle(self._title, max(4, room - state.cell_length - 3))
        fill = room - cell_len(title) - state.cell_length - 2
        line = Style(foreground=self.styles.border_top[1], bold=False)
        return Content.assemble(title, (f" {'─' * fill} ", line), state)

    def _whole_state(self) -> Content:
        if self._awaited is None:
            return self._state
        waited = monotonic() - self._waits_since
        since = f" {duration(waited)}" if waited >= _SOON else ""
        return Content(" · ").join(filter(None, [self._state, Content(f"{plain_line(self._awaited)} …{since}")]))


class ScrollPane(Pane, VerticalScroll):
    """A pane whose content scrolls."""


class SwitchPane(Pane, ContentSwitcher):
    """A pane that shows one of its children; `initial` is the id of the first."""
