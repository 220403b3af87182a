"""The points of one metric: kept in 16 bytes each, looked at without a copy, reduced to what a chart can show."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Trend = Literal["rising", "falling", "steady"]

# How many of the last points tell the trend, and how many there must be.
_TREND_POINTS = 60
_TREND_LEAST = 4


class Series:
    """The points of a metric in the order in which they were logged. Grows at its end, or is cut by a later attempt.

    `snapshot` gives what other threads may read: a cut makes new arrays, and to grow does not change what is there.
    """

    def __init__(self) -> None:
        self._points = Points()

    def add(self, step: int, value: float, *, attempt: int) -> None:
        """Append a point. Of two attempts the later counts: it takes away what earlier ones logged from its step on.

        A line of an earlier attempt that comes late is left out.
        """
        points = self._points
        if attempt < points.attempt:
            return
        if attempt > points.attempt:
            points = self._points = _before(points, step, attempt)
        if not math.isfinite(value):
            points.odd.append(len(points.steps))
        points.values.append(value)
        points.steps.append(step)

    def snapshot(self) -> Points:
        """Return the points so far, which stay as they are."""
        points = self._points
        return Points(points.steps, points.values, points.odd, len(points.steps), points.attempt)


@dataclass(frozen=True, eq=False)
class Points:
    """The first `length` points of a series: `steps` and `values` side by side. `odd` has the places of NaN and ±inf.

    The arrays may go on growing behind `length`; equal when the same points are meant.
    """

    steps: array[int] = field(default_factory=lambda: array("q"))
    values: array[float] = field(default_factory=lambda: array("d"))
    odd: array[int] = field(default_factory=lambda: array("q"))
    length: int = 0
    attempt: int = 0

    def __len__(self) -> int:
        return self.length

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Points) or self.length != other.length:
            return False
        return self.steps is other.steps or not self.length

    def __hash__(self) -> int:
        return hash(self.length)

    def __iter__(self) -> Iterator[tuple[int, float]]:
        return ((self.steps[index], self.values[index]) for index in range(self.length))

    @property
    def last(self) -> tuple[int, float] | None:
        """The last point (step, value), None where there is none; the value may be NaN or infinite."""
        return (self.steps[self.length - 1], self.values[self.length - 1]) if self.length else None

    @property
    def odd_count(self) -> int:
        """How many values are NaN or infinite."""
        return bisect_left(self.odd, self.length)

    def finite(self, start: int = 0, stop: int | None = None) -> array[float]:
        """Return the finite values from place `start` to `stop` (excluded)."""
        stop = self.length if stop is None else stop
        values = self.values[start:stop]
        if bisect_left(self.odd, start) == bisect_left(self.odd, stop):
            return values
        return array("d", filter(math.isfinite, values))

    def span(self) -> tuple[float, float] | None:
        """Return the least and the greatest finite value, None where there is none."""
        values = self.finite()
        return (min(values), max(values)) if values else None

    def trend(self) -> Trend | None:
        """Return where the last values go, None where they are too few.

        They rise or fall when the means of their two halves differ by more than the halves' own scatter.
        """
        values = self.finite(max(0, self.length - _TREND_POINTS))
        if len(values) < _TREND_LEAST:
            return None
        size = max(map(abs, values)) or 1.0  # so that no square is too great for a float
        half = len(values) // 2
        before, after = [value / size for value in values[:half]], [value / size for value in values[-half:]]
        change = sum(after) / half - sum(before) / half
        scatter = math.sqrt((_variance(before) + _variance(after)) / half)
        if abs(change) <= max(2 * scatter, 1e-9):
            return "steady"
        return "rising" if change > 0 else "falling"

    def columns(self, count: int, first: float, last: float) -> list[Column | None]:
        """Return what `count` columns of a chart show whose steps go from `first` to `last`; None where nothing is.

        Least and greatest value of each column stay; no value is made up.
        """
        if count < 1 or last < first:
            return []
        width = (last - first) / count or 1.0
        found: list[Column | None] = []
        start = bisect_left(self.steps, first, 0, self.length)
        broken = False
        for number in range(1, count + 1):
            cut, limit = (bisect_right, last) if number == count else (bisect_left, first + number * width)
            stop = cut(self.steps, limit, start, self.length)
            column = self._column(start, stop, broken) if stop > start else None
            broken = column.ends_broken if column else broken or stop > start
            found.append(column)
            start = stop
        return found

    def _column(self, start: int, stop: int, broken: bool) -> Column | None:
        values = self.finite(start, stop)
        if not values:
            return None
        odd = len(values) < stop - start
        return Column(
            values[0], values[-1], min(values), max(values),
            broken or (odd and not math.isfinite(self.values[start])),
            odd and not math.isfinite(self.values[stop - 1]),
        )  # fmt: skip


class Column(NamedTuple):
    """A column of a chart: its first, last, least and greatest finite value.

    `starts_broken` tells that a value which is no number stands between it and the column before; `ends_broken` that
    one stands at its end.
    """

    first: float
    last: float
    low: float
    high: float
    starts_broken: bool
    ends_broken: bool


def _variance(values: list[float]) -> float:
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values) / len(values)


def _before(points: Points, step: int, attempt: int) -> Points:
    """Return a copy of the points before `step`, ready for those of a later attempt."""
    stop = bisect_left(points.steps, step)
    return Points(points.steps[:stop], points.values[:stop], points.odd[: bisect_left(points.odd, stop)], 0, attempt)
