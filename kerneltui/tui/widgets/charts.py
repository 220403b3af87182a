"""The charts of a run, as many as there is room for; the rest is read out beside them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Container
from textual.content import Content
from textual.message import Message
from textual.reactive import var
from textual.widgets import Static

from kerneltui.advice.about_trainers import good_curve
from kerneltui.tui.widgets.chart import NO_POINTS, Chart
from kerneltui.tui.widgets.lines import Lines
from kerneltui.tui.widgets.pane import Pane
from kerneltui.tui.widgets.words import ARROWS, pad, short

if TYPE_CHECKING:
    from kerneltui.runs.live_view import LiveView

# What a chart needs at least, in cells, with its border; and how many there are at most.
_WIDTH, _HEIGHT = 36, 9
_MOST = 24
# Seconds between two charts that are drawn, so that no picture keeps the keyboard waiting.
_PAUSE = 0.04
# What a person looks for first; others follow as they were logged.
_FIRST = (
    "loss", "reward", "rewards/margins", "rewards/accuracies", "kl", "grad_norm", "mean_token_accuracy", "entropy",
    "reward_std", "completions/mean_length", "rewards/chosen", "rewards/rejected", "learning_rate",
)  # fmt: skip


def in_order(names: list[str], known: list[str]) -> list[str]:
    """Return the names of metrics, those that are `known` in their places, new ones after them by importance."""
    new = [name for name in dict.fromkeys(names) if name not in known]
    ranks = {name: rank for rank, name in enumerate(_FIRST)}
    return known + sorted(new, key=lambda name: ranks.get(name, len(ranks)))


class Charts(Container):
    """A grid of charts. Keeps each metric in its place; posts `Arranged` when other metrics than before are charts."""

    DEFAULT_CSS = """
    Charts {
        layout: grid;
        &> #no-curves { height: 1fr; color: $secondary; }
    }
    """

    view: var[LiveView | None] = var(None)

    @dataclass
    class Arranged(Message):
        """These metrics are charts now; the others have no room."""

        shown: tuple[str, ...]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._charts: dict[str, Chart] = {}
        self._shown: tuple[str, ...] = ()

    def compose(self) -> ComposeResult:
        """Say what will be here."""
        nothing = Static("The curves come with the first values that the trainer logs.", id="no-curves", classes="pane")
        nothing.border_title = "Curves"
        yield nothing

    def watch_view(self, view: LiveView | None) -> None:
        """Show a newer view, and what is logged for the first time."""
        if view is None:
            return
        for number, name in enumerate(self._shown):
            self.set_timer(_PAUSE * number, partial(self._show, name)) if number else self._show(name)
        names = in_order([*view.metrics, *view.evaluations], list(self._charts))
        new = {name: Chart(name) for name in names[:_MOST] if name not in self._charts}
        if new:
            for chart in new.values():
                chart.display = False
                chart.tell_good(good_curve(view.trainer, chart.metric))
            self._charts |= new
            self.mount_all(new.values())
            self.call_after_refresh(self._arrange)

    def on_resize(self) -> None:
        """Fit in as many as there is room for."""
        self._arrange()

    def _show(self, name: str) -> None:
        """Give a chart its points."""
        if view := self.view:
            self._charts[name].show(
                view.metrics.get(name, NO_POINTS),
                view.evaluations.get(name, NO_POINTS),
                total=view.total,
                ended=not view.active,
            )

    def _arrange(self) -> None:
        width, height = self.size
        if not self._charts or not width or not height:
            return
        self.query_one("#no-curves").display = False
        most = max(1, width // _WIDTH) * max(1, height // _HEIGHT)
        names = tuple(self._charts)[:most]
        columns = _columns(len(names), width)
        rows = -(-len(names) // columns)
        self.styles.grid_size_columns, self.styles.grid_size_rows = columns, rows
        # The first takes the cells that would stay empty.
        self._charts[names[0]].styles.column_span = 1 + columns * rows - len(names)
        if names != self._shown:
            self._shown = names
            for name, chart in self._charts.items():
                chart.display = name in names
            for name in names:
                self._show(name)
            self.post_message(self.Arranged(names))


def _columns(count: int, width: int) -> int:
    """Return in how many columns `count` charts stand best: no wider than they need to be read."""
    most = max(1, width // _WIDTH)
    rows = -(-count // most)
    return -(-count // rows)


class Readings(Pane, Lines):
    """The metrics that have no chart: last value, trend, range."""

    DEFAULT_CSS = "Readings { height: 1fr; }"

    view: var[LiveView | None] = var(None)
    charted: var[tuple[str, ...]] = var(())

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._names: list[str] = []

    def watch_view(self, view: LiveView | None) -> None:
        """Read out a newer view."""
        if view is not None:
            self._names = in_order([*view.metrics, *view.evaluations], self._names)
            self._read()

    def watch_charted(self) -> None:
        """Read out other metrics."""
        self._read()

    def on_resize(self) -> None:
        """Fit in as many as there is room for."""
        self._read()

    def _read(self) -> None:
        view, (width, height) = self.view, self.content_size
        if view is None or not width or not height:
            return
        names = [name for name in self._names if name not in self.charted]
        self.entitle("Metrics", f"{len(names)} more" if self.charted else "")
        lines = [_reading(name, view, width) for name in names]
        if len(lines) > height:
            lines = [*lines[: height - 1], Content.styled(f"… {len(lines) - height + 1} more: 1", "$secondary")]
        self.show_lines(lines)


def _reading(name: str, view: LiveView, width: int) -> Content:
    """Return one metric in one line: name, last value, trend, and its range where there is room."""
    points = view.metrics.get(name) or view.evaluations.get(name)
    last, trend, span = (points.last, points.trend(), points.span()) if points else (None, None, None)
    label = pad(name if name in view.metrics else f"eval {name}", max(6, min(24, width - 12)))
    value = f" {short(last[1] if last else None):>9} {ARROWS[trend]}"
    between = f"  {short(span[0])} … {short(span[1])}" if span else ""
    room = len(label) + len(value) + len(between) <= width
    return Content.assemble((label, "$secondary"), value, (between if room else "", "$secondary"))
