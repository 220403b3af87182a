"""The log pane: lines wrapped at the width, drawn only where they are seen, following the end or not."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len, chop_cells
from rich.segment import Segment
from textual import events
from textual.binding import Binding
from textual.content import Content
from textual.geometry import Region
from textual.reactive import var
from textual.strip import Strip

from kerneltui.tui.widgets.pane import Pane

if TYPE_CHECKING:
    from kerneltui.runs.log import LogView

_GUTTER = 2
_WHEEL = 3
_ERROR = re.compile(
    r"^Traceback \(most recent"
    r"|^(?:\[rank\d+\]: ?)?[A-Za-z_][\w.]*(?:Error|Exception|Interrupt)(?::|$)"
    r"|\b(?:ERROR|CRITICAL|FATAL)\b"
)
_WARNING = re.compile(r"\bWARN(?:ING)?\b|\b\w*Warning\b|\bwarning:", re.ASCII)


class Row(NamedTuple):
    """One row of the pane: a piece of a line, and the sign before it ("✖", "▲" or none)."""

    sign: str
    text: str


class LogPane(Pane, can_focus=True):
    """Shows a `LogView`. Errors and warnings have a sign before them.

    `following` is whether the end stays in view; to go up ends that, to go to the end begins it again. The pane keeps
    its own place (`top`): Textual's scrolling would lay out the whole screen at each new line.
    """

    COMPONENT_CLASSES = {"log--error", "log--warning"}
    DEFAULT_CSS = """
    LogPane {
        height: 1fr;
        &> .log--error { color: $error; }
        &> .log--warning { color: $warning; }
    }
    """
    BINDINGS = [
        Binding("up", "go(-1)", "Up", show=False),
        Binding("down", "go(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown,space", "page(1)", "Page down", show=False),
        Binding("home", "go(-1000000)", "First line", show=False),
        Binding("end", "go(1000000)", "Last line", show=False),
    ]

    log_lines: var[LogView | None] = var(None)
    following: var[bool] = var(True)

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.top = 0
        self._rows: list[Row] = []
        self._counts: list[int] = []
        self._signs: list[str] = []
        self._width = 0

    def watch_log_lines(self, old: LogView | None, new: LogView | None) -> None:
        """Show newer lines; those that stayed are not touched."""
        if new is None or not self._width:
            return
        gone, same = _unchanged(old, new) if old is not None else (0, 0)
        removed = sum(self._counts[:gone])
        kept = sum(self._counts[gone : gone + same])
        seen = self._seen()
        del self._rows[:removed], self._counts[:gone], self._signs[:gone]
        del self._rows[kept:], self._counts[same:], self._signs[same:]
        self._append(new.lines[same:])
        self.top = self._last_top() if self.following else max(0, min(self.top - removed, self._last_top()))
        self._draw_changes(seen)
        self._retitle()

    def watch_following(self) -> None:
        """Go to the end, or stay."""
        if self.following:
            self.action_go(len(self._rows))
        self._retitle()

    def on_resize(self) -> None:
        """Wrap the lines at the new width."""
        if self.content_size.width != self._width:
            self._width = self.content_size.width
            self._rows, self._counts, self._signs = [], [], []
            self._append(self.log_lines.lines if self.log_lines else ())
        self.top = self._last_top() if self.following else min(self.top, self._last_top())
        self.refresh()
        self._retitle()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Go up."""
        event.stop()
        self.action_go(-_WHEEL)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Go down."""
        event.stop()
        self.action_go(_WHEEL)

    def render_line(self, y: int) -> Strip:
        """Return the row that is at line `y` of the pane."""
        width, number, style = self.content_size.width, y + self.top, self.visual_style.rich_style
        if not 0 <= number < len(self._rows):
            return Strip.blank(width, style)
        sign, text = self._rows[number]
        kind = {"✖": "log--error", "▲": "log--warning"}.get(sign)
        coloured = style + self.get_component_rich_style(kind, partial=True) if kind else style
        segments = [Segment(f"{sign:<{_GUTTER}}", coloured), Segment(text, coloured if sign == "✖" else style)]
        return Strip(segments).adjust_cell_length(width, style)

    def action_go(self, rows: int) -> None:
        """Go down so many rows, up where it is negative."""
        seen = self._seen()
        self.top = max(0, min(self.top + rows, self._last_top()))
        self.following = self.top == self._last_top()
        self._draw_changes(seen)
        self._retitle()

    def action_page(self, pages: int) -> None:
        """Go down so many pages, up where it is negative."""
        self.action_go(pages * max(1, self.content_size.height - 1))

    def action_follow(self) -> None:
        """Follow the end, or stop following."""
        self.following = not self.following

    def _append(self, lines: tuple[str, ...]) -> None:
        width = max(8, self._width - _GUTTER)
        for line in lines:
            sign = "✖" if _ERROR.search(line) else "▲" if _WARNING.search(line) else ""
            pieces = wrap(line, width)
            self._rows += [Row(sign, pieces[0]), *(Row("", piece) for piece in pieces[1:])]
            self._counts.append(len(pieces))
            self._signs.append(sign)

    def _last_top(self) -> int:
        return max(0, len(self._rows) - self.content_size.height)

    def _seen(self) -> list[Row | None]:
        """Return the rows that are in view, None for those after the last."""
        height = self.content_size.height
        rows: list[Row | None] = [*self._rows[self.top : self.top + height]]
        return rows + [None] * (height - len(rows))

    def _draw_changes(self, before: list[Row | None]) -> None:
        """Draw the rows in view that are others than before."""
        changed = [row for row, (old, new) in enumerate(zip(before, self._seen(), strict=True)) if old != new]
        if changed:
            self.refresh(*(Region(0, row, self.content_size.width, 1) for row in changed))

    def _retitle(self) -> None:
        warnings, errors = self._signs.count("▲"), self._signs.count("✖")
        parts = ["following" if self.following else f"row {self.top + 1} of {len(self._rows)}, f follows the end"]
        parts += [f"▲ {warnings}"] if warnings else []
        parts += [f"✖ {errors}"] if errors else []
        self.entitle("Log", Content(" · ".join(parts)))


def wrap(line: str, width: int) -> list[str]:
    """Return a line in pieces of at most `width` cells; between words where a piece then is not too short."""
    if len(line) * 2 <= width or cell_len(line) <= width:
        return [line]
    pieces = []
    while line:
        head = line[:width] if line.isascii() else chop_cells(line[:width], width)[0]
        if len(head) < len(line) and (space := head.rfind(" ")) > len(head) // 2:
            head = head[: space + 1]
        pieces.append(head)
        line = line[len(head) :]
    return pieces


def _unchanged(old: LogView, new: LogView) -> tuple[int, int]:
    """Return how many lines of `old` are gone at the top, and how many after them are the same in `new`."""
    from kerneltui.runs.log import REWRITABLE

    gone = min(new.first - old.first, len(old.lines))
    if gone < 0 or old.path != new.path:
        return len(old.lines), 0
    most = min(len(old.lines) - gone, len(new.lines))
    same = max(0, most - REWRITABLE - 1)
    while same < most and old.lines[gone + same] == new.lines[same]:
        same += 1
    return gone, same
