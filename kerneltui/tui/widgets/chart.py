"""The chart of one metric over the steps: drawn in braille, read out in words."""

from __future__ import annotations

import math
from itertools import groupby

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.content import Content
from textual.geometry import Region
from textual.strip import Strip

from kerneltui.runs.series import Points
from kerneltui.tui.widgets.pane import Pane
from kerneltui.tui.widgets.plot import draw, round_up, scale_for
from kerneltui.tui.widgets.words import ARROWS, short

NO_POINTS = Points()
_EVALUATION = "◆"
_GRID = "┈"
# From so many rows on the axis has four parts, and the steps a line of their own.
_ROWS_FOR_PARTS = 10
_ROWS_FOR_STEPS = 5
# Corners and blanks beside the words in the lower border.
_AROUND_GOOD = 6

# A row of the picture: characters, each with the part of the chart that it belongs to.
Row = list[tuple[str, str]]


class Chart(Pane):
    """One metric; its evaluation, where there is one, as marks over it.

    Least and greatest value of each column are drawn; a value that is no number is a gap. The title has the last value
    and where it goes. `reading` says the same in words.
    """

    COMPONENT_CLASSES = {"chart--line", "chart--evaluation", "chart--grid", "chart--label"}
    DEFAULT_CSS = """
    Chart {
        height: 1fr;
        width: 1fr;
        border-subtitle-color: $secondary;
        &> .chart--line { color: $primary; }
        &> .chart--evaluation { color: $foreground; text-style: bold; }
        &> .chart--grid { color: $border; }
        &> .chart--label { color: $secondary; }
    }
    """

    def __init__(self, metric: str) -> None:
        super().__init__(classes="pane chart")
        self.metric = metric
        self.good = ""
        self._points = self._evaluation = NO_POINTS
        self._end = 1
        self._picture: list[Row] = []

    def show(
        self, points: Points, evaluation: Points = NO_POINTS, *, total: int | None = None, ended: bool = False
    ) -> None:
        """Show these points; `total` is the last step that will come, `ended` that none comes any more.

        Only the rows of the picture that changed are drawn.
        """
        last = max(point[0] for point in (points.last, evaluation.last, (1, 0.0)) if point)
        end = last if ended else round_up(last, total)
        if (points, evaluation, end) != (self._points, self._evaluation, self._end):
            self._points, self._evaluation, self._end = points, evaluation, end
            self.entitle(self.metric, _state(points, evaluation))
            self._redraw()

    @property
    def reading(self) -> str:
        """The chart in words: last value and step, where it goes, its range, and what is no number."""
        return read_out(self.metric, self._points, self._evaluation)

    def tell_good(self, words: str | None) -> None:
        """Say in the lower border, where there is room, how a good curve of this metric looks."""
        self.good = f"good: {words}" if words else ""
        room = cell_len(self.good) <= self.outer_size.width - _AROUND_GOOD
        self.border_subtitle = Content(self.good if room else "")

    def on_resize(self) -> None:
        """Draw for the new size."""
        self.tell_good(self.good.removeprefix("good: "))
        self._redraw()

    def render_line(self, y: int) -> Strip:
        """Return one row of the picture in its colours."""
        base, width = self.visual_style.rich_style, self.content_size.width
        if y >= len(self._picture):
            return Strip.blank(width, base)
        segments = [
            Segment("".join(character for character, _ in cells), base + self._style(part))
            for part, cells in groupby(self._picture[y], key=lambda cell: cell[1])
        ]
        return Strip(segments, width)

    def _style(self, part: str) -> Style:
        return self.get_component_rich_style(f"chart--{part}", partial=True)

    def _redraw(self) -> None:
        width, height = self.content_size
        old, self._picture = self._picture, draw_chart(self._points, self._evaluation, self._end, width, height)
        if len(old) != len(self._picture):
            self.refresh()
            return
        rows = [row for row in range(height) if old[row] != self._picture[row]]
        if rows:
            self.refresh(*(Region(0, row, width, 1) for row in rows))


def draw_chart(points: Points, evaluation: Points, end: int, width: int, height: int) -> list[Row]:
    """Return the picture of a metric up to step `end` in so many cells: `height` rows of `width` characters."""
    spans = [span for found in (points, evaluation) if (span := found.span())]
    if not spans or width < 8 or height < 1:
        return [[(" ", "grid")] * width] * height
    rows = height - (height >= _ROWS_FOR_STEPS)
    low, high = min(low for low, _ in spans), max(high for _, high in spans)
    scale = scale_for(low, high, 4 if rows >= _ROWS_FOR_PARTS else 2)
    labels = {rows - 1 - scale.place(mark, rows): scale.label(mark) for mark in scale.marks}
    gutter = min(width - 2, max(map(len, labels.values())) + 1)
    cells = width - gutter
    first = min(found.steps[0] for found in (points, evaluation) if found)
    lines = draw(points.columns(2 * cells, first, end), scale, rows)
    picture = [_row(line, labels.get(number), gutter) for number, line in enumerate(lines)]
    for cell, column in enumerate(evaluation.columns(cells, first, end) if evaluation else ()):
        if column:
            picture[rows - 1 - scale.place(column.last, rows)][gutter + cell] = (_EVALUATION, "evaluation")
    if rows < height:
        picture.append([(character, "label") for character in _steps(first, end, gutter, cells)])
    return picture


def _row(line: str, label: str | None, gutter: int) -> Row:
    blank = (" " if label is None else _GRID, "grid")
    return [
        *((character, "label") for character in f"{label or '':>{gutter - 1}} "[-gutter:]),
        *(blank if character == " " else (character, "line") for character in line),
    ]


def _steps(first: int, end: int, gutter: int, cells: int) -> str:
    """Return the axis of steps: where it starts and ends."""
    start, stop = f"step {first}", str(end)
    text = start + stop.rjust(cells - len(start)) if len(start) + len(stop) < cells else stop.rjust(cells)[:cells]
    return " " * gutter + text


def _state(points: Points, evaluation: Points) -> Content:
    """Return the last value and its trend, and the last evaluation."""
    parts = [Content(f"eval {_EVALUATION} {short(evaluation.last[1])}")] if evaluation.last else []
    if points.last:
        value = points.last[1]
        words = f"{short(value)} {ARROWS[points.trend()]}".rstrip()
        parts.append(Content(words if math.isfinite(value) else f"✖ {short(value)}"))
    return Content(" · ").join(parts)


def read_out(metric: str, points: Points, evaluation: Points = NO_POINTS) -> str:
    """Return a metric in words."""
    if not points.last and not evaluation.last:
        return f"{metric}: nothing logged yet"
    parts = []
    if points.last:
        step, value = points.last
        parts.append(", ".join(filter(None, [f"last {short(value)} at step {step}", points.trend()])))
        if span := points.span():
            parts.append(f"from {short(span[0])} to {short(span[1])}")
        if points.odd_count:
            parts.append(f"{points.odd_count} not a number")
    if evaluation.last:
        parts.append(f"evaluation {short(evaluation.last[1])} at step {evaluation.last[0]}")
    return f"{metric}: {'; '.join(parts)}"
