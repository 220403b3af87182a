"""Widgets that are drawn anew only where their text changed: the screen is laid out anew only for another height."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content
from textual.css.styles import RulesMap
from textual.geometry import Region
from textual.visual import VisualType
from textual.widget import Widget
from textual.widgets import Static

from kerneltui.text import plain, sure_width


class Lines(Widget):
    """Shows lines, each cut at the widget's width."""

    DEFAULT_CSS = "Lines { text-wrap: nowrap; text-overflow: ellipsis; }"

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._lines: list[Content] = []
        self._drawn_width = 0

    def show_lines(self, lines: Sequence[Content]) -> None:
        """Show these lines. Lays out anew only where their number changed."""
        width = self.content_size.width
        old, self._lines = self._lines, [line.truncate(width, ellipsis=True) for line in lines]
        if len(old) != len(self._lines) or width != self._drawn_width:
            self._drawn_width = width
            self.refresh(layout=len(old) != len(self._lines))
            return
        changed = [not new.is_same(before) for new, before in zip(self._lines, old, strict=True)]
        regions = [Region(0, row, width, 1) for row, is_new in enumerate(changed) if is_new]
        if regions:
            self.refresh(*regions)

    def render(self) -> Content:
        """Return the lines."""
        return Content("\n").join(self._lines)


class Note(Static):
    """A text, made plain. To show the same again costs nothing, another of the same height no layout of the screen."""

    def update(self, content: VisualType = "", *, layout: bool = True) -> None:
        """Show a text."""
        new = content if isinstance(content, Content) else Content(str(content))
        if (harmless := sure_width(plain(new.plain))) != new.plain:
            new = Content(harmless)
        if isinstance(self.content, Content) and new.is_same(self.content):
            return
        width, height = self.content_size
        rules = RulesMap(text_wrap=self.styles.text_wrap, text_overflow=self.styles.text_overflow)
        fits = width > 0 and new.get_height(rules, width) == height
        super().update(new, layout=layout and not fits)
