"""A part of the server report, wrapped at the width that it has on screen."""

from __future__ import annotations

from collections.abc import Callable

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from kerneltui.facts.server import Server

# Fewer cells than this are not wrapped for: the rest is cut.
_LEAST = 30


class ReportPane(VerticalScroll):
    """Shows the lines that `lines(server, width)` gives."""

    def __init__(self, title: str, lines: Callable[[Server, int], list[str]], *, id: str) -> None:
        super().__init__(id=id, classes="pane")
        self.border_title = title
        self._lines = lines
        self._server: Server | None = None

    def compose(self) -> ComposeResult:
        """Lay out the text."""
        yield Static("")

    def show(self, server: Server) -> None:
        """Show another report."""
        self._server = server
        self._fill()

    def on_resize(self) -> None:
        """Wrap for the new width."""
        self._fill()

    def _fill(self) -> None:
        width = max(_LEAST, self.scrollable_content_region.width)
        if self._server is not None:
            text = Content("\n").join(_labelled(line) for line in self._lines(self._server, width))
            self.query_one(Static).update(text)


def _labelled(line: str) -> Content:
    """Return a line with its label, which stands at its beginning, in the quiet colour."""
    label = line[:12] if line[:1].strip() else ""
    return Content.assemble((label, "$secondary"), line[len(label) :])
