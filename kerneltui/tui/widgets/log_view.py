"""The log pane: lines wrapped at the width, drawn only where they are seen, following the end or not; and searched."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len, chop_cells
from rich.segment import Segment
from textual import events, work
from textual.binding import Binding
from textual.content import Content
from textual.geometry import Region
from textual.message import Message
from textual.reactive import var
from textual.strip import Strip
from textual.worker import get_current_worker

from kerneltui.text import plain_line
from kerneltui.tui.widgets.pane import Pane

if TYPE_CHECKING:
    from kerneltui.runs.log import LogView
    from kerneltui.runs.log_search import Excerpt

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
    """Shows a `LogView`, or an `Excerpt` around what was searched. Errors and warnings have a sign before them.

    `following` is whether the end stays in view; to go up ends that, to go to the end begins it again. The pane keeps
    its own place (`top`): Textual's scrolling would lay out the whole screen at each new line.
    """

    COMPONENT_CLASSES = {"log--error", "log--warning", "log--found"}
    DEFAULT_CSS = """
    LogPane {
        height: 1fr;
        &> .log--error { color: $error; }
        &> .log--warning { color: $warning; }
        &> .log--found { text-style: bold; background: $panel; }
    }
    """
    BINDINGS = [
        Binding("up", "go(-1)", "Up", show=False),
        Binding("down", "go(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown,space", "page(1)", "Page down", show=False),
        Binding("home", "first", "First line", show=False),
        Binding("end", "last", "Last line", show=False),
    ]

    log_lines: var[LogView | None] = var(None)
    following: var[bool] = var(True)

    @dataclass
    class Found(Message):
        """A line was found at `place`; `up` tells in which direction. None: there is none that is `what`."""

        what: str
        up: bool
        place: Excerpt | None
        marked: bool = True

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.top = 0
        self._rows: list[Row] = []
        self._counts: list[int] = []
        self._signs: list[str] = []
        self._width = 0
        self._excerpt: Excerpt | None = None
        self._marked: int | None = None
        self._pattern: re.Pattern[str] | None = None

    def watch_log_lines(self, old: LogView | None, new: LogView | None) -> None:
        """Show newer lines; those that stayed are not touched."""
        if new is None or not self._width or self._excerpt is not None:
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
        if self.following and self._excerpt is not None:
            self._excerpt = self._marked = None
            self._wrap_all()
        elif self.following:
            self.action_go(len(self._rows))
        self._retitle()

    def on_resize(self) -> None:
        """Wrap the lines at the new width."""
        if self.content_size.width != self._width:
            self._width = self.content_size.width
            self._wrap_all()
        self.top = self._last_top() if self.following else min(self.top, self._last_top())
        self.refresh()
        self._retitle()

    def _wrap_all(self) -> None:
        """Wrap all lines anew."""
        shown = self._excerpt or self.log_lines
        self._rows, self._counts, self._signs = [], [], []
        self._append(shown.lines if shown else ())
        self.top = self._last_top() if self.following else min(self.top, self._last_top())
        self.refresh()

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
        if found := number in self._found_rows():
            style += self.get_component_rich_style("log--found", partial=True)
        coloured = style + self.get_component_rich_style(kind, partial=True) if kind else style
        gutter = f"{sign:<1}{'›' if found else '':<1}"
        segments = [Segment(gutter, coloured), Segment(text, coloured if sign == "✖" else style)]
        return Strip(segments).adjust_cell_length(width, style)

    def action_go(self, rows: int) -> None:
        """Go down so many rows, up where it is negative; at the edge of an excerpt to the lines beyond it."""
        seen, before = self._seen(), self.top
        self.top = max(0, min(self.top + rows, self._last_top()))
        if self._excerpt is None:
            self.following = self.top == self._last_top()
        elif self.top == before:
            self._go_beyond(self._excerpt, up=rows < 0)
        self._draw_changes(seen)
        self._retitle()

    def action_page(self, pages: int) -> None:
        """Go down so many pages, up where it is negative."""
        self.action_go(pages * max(1, self.content_size.height - 1))

    def action_first(self) -> None:
        """Go to the first line: of an excerpt to that of the file, else to the first that is kept."""
        if self._excerpt is not None and self._excerpt.offsets[0] > 0:
            self._read_around(self._excerpt.path, 0, up=True)
        else:
            self.action_go(-len(self._rows))

    def action_last(self) -> None:
        """Go to the last line and follow the end."""
        self.following = True

    def action_follow(self) -> None:
        """Follow the end, or stop following."""
        self.following = not self.following

    @property
    def searched(self) -> str:
        """The expression that was last looked for, "" where none was."""
        return self._pattern.pattern if self._pattern else ""

    def search(self, pattern: re.Pattern[str]) -> None:
        """Look for the lines that hold `pattern`: from the end upwards, or from the line that was found downwards."""
        self._pattern = pattern
        self.search_again(up=False)

    def search_again(self, *, up: bool) -> bool:
        """Look for the next line above or below; return whether there is anything to look for."""
        if self._pattern is None:
            return False
        self._look_for(self._pattern.search, f"matches {self._pattern.pattern}", up=up)
        return True

    def step_signs(self, *, up: bool) -> None:
        """Go to the nearest error or warning above or below."""
        self._look_for(sign_of, "is an error or a warning", up=up)

    def _look_for(self, matches: Callable[[str], object], what: str, *, up: bool) -> None:
        path = self._excerpt.path if self._excerpt else self.log_lines.path if self.log_lines else None
        if path is None:
            self.notify("Nothing was printed yet.")
            return
        self.wait(f"looking for what {plain_line(what)}")
        # Below the end is nothing: the first look from there goes up.
        self._read_place(path, self._marked, matches, what, up=up or self._excerpt is None)

    @work(thread=True, exclusive=True, group="search", description="searching the log")
    def _read_place(
        self, path: Path, place: int | None, matches: Callable[[str], object], what: str, *, up: bool
    ) -> None:
        """Look for a line and read what stands around it."""
        from kerneltui.runs.log_search import excerpt, find

        worker = get_current_worker()
        try:
            offset = find(path, place, matches, up=up, stop=lambda: worker.is_cancelled)
            found = excerpt(path, offset) if offset is not None else None
        except OSError:
            found = None
        if not worker.is_cancelled:
            self.post_message(self.Found(what, up, found))

    @work(thread=True, exclusive=True, group="search", description="reading more of the log")
    def _read_around(self, path: Path, offset: int, *, up: bool) -> None:
        """Read the lines around one."""
        from kerneltui.runs.log_search import excerpt

        try:
            found = excerpt(path, offset)
        except OSError:
            found = None
        if not get_current_worker().is_cancelled:
            self.post_message(self.Found("can be read", up, found, marked=False))

    def on_log_pane_found(self, message: Found) -> None:
        """Show the place, or say that there is none."""
        message.stop()
        self.wait(None)
        if message.place is None:
            where = "above" if message.up else "below"
            self.notify(f"No line {where} {plain_line(message.what)}.", markup=False)
            return
        self._excerpt, self.following = message.place, False
        self._marked = message.place.offset if message.marked else self._marked
        self._wrap_all()
        row, height = sum(self._counts[: message.place.number]), self.content_size.height
        # What was found stands in the middle; what is gone on from stays where it was.
        above = height // 2 if message.marked else 0 if message.up else height - 1
        self.top = max(0, min(row - above, self._last_top()))
        self._retitle()

    def _go_beyond(self, shown: Excerpt, *, up: bool) -> None:
        if up and shown.offsets[0] > 0:
            self._read_around(shown.path, shown.offsets[0], up=True)
        elif not up and shown.ends:
            self.following = True
        elif not up:
            self._read_around(shown.path, shown.offsets[-1], up=False)

    def _found_rows(self) -> range:
        """Return the rows of the line that was found."""
        if self._excerpt is None or self._marked not in self._excerpt.offsets:
            return range(0)
        number = self._excerpt.offsets.index(self._marked)
        start = sum(self._counts[:number])
        return range(start, start + self._counts[number])

    def _append(self, lines: tuple[str, ...]) -> None:
        width = max(8, self._width - _GUTTER)
        for line in lines:
            sign = sign_of(line)
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
        if self._excerpt is not None:
            part = self._excerpt.offset / max(1, self._excerpt.size)
            self.entitle("Log", f"at {100 * part:.0f} % of {self._excerpt.size / 1e6:.1f} MB · f follows the end")
            return
        warnings, errors = self._signs.count("▲"), self._signs.count("✖")
        parts = ["following" if self.following else f"row {self.top + 1} of {len(self._rows)}, f follows the end"]
        parts += [f"▲ {warnings}"] if warnings else []
        parts += [f"✖ {errors}"] if errors else []
        self.entitle("Log", Content(" · ".join(parts)))


def sign_of(line: str) -> str:
    """Return the sign of a line: "✖" for an error, "▲" for a warning, "" for any other."""
    return "✖" if _ERROR.search(line) else "▲" if _WARNING.search(line) else ""


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
