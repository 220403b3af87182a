"""A curve as characters: braille dots, two by four to a cell. Pure functions, no widget."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from kerneltui.runs.series import Column

_BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
# Beyond these a float cannot be divided and multiplied freely any more.
_GREATEST, _LEAST = 1e300, 1e-290
_NICE = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)


@dataclass(frozen=True)
class Scale:
    """An axis from `low` to `high` with a mark every `step`; all three are round, so that they move in steps."""

    low: float
    high: float
    step: float

    @property
    def marks(self) -> tuple[float, ...]:
        """The values of the marks, the lowest first."""
        count = round((self.high - self.low) / self.step)
        return tuple(self.low + number * self.step for number in range(count + 1))

    def place(self, value: float, cells: int) -> int:
        """Return the place of a value among so many cells, from 0 at `low`."""
        part = (value - self.low) / (self.high - self.low)
        return min(cells - 1, max(0, round(part * (cells - 1))))

    def label(self, value: float) -> str:
        """Return a mark's value, with no more digits than tell the marks apart."""
        size = max(abs(self.low), abs(self.high))
        if size >= 1e5 or (size and size < 1e-3):
            return self._scientific(value)
        digits = max(0, -math.floor(math.log10(self.step) + 1e-9))
        digits = next(
            (more for more in (digits, digits + 1) if all(_fits(mark, more, self.step) for mark in self.marks)),
            digits + 2,
        )
        return f"{value:.{digits}f}"

    def _scientific(self, value: float) -> str:
        if abs(value) < self.step / 2:
            return "0"
        digits = next((more for more in range(1, 9) if all(self._tells(mark, more) for mark in self.marks)), 9)
        return re.sub(r"e\+?(-?)0*", r"e\1", f"{value:.{digits - 1}e}")

    def _tells(self, mark: float, digits: int) -> bool:
        return abs(float(f"{mark:.{digits - 1}e}") - mark) < 1e-6 * self.step


def _fits(value: float, digits: int, step: float) -> bool:
    """Return whether a mark is told exactly with so many digits after the point."""
    return abs(round(value, digits) - value) < 1e-6 * step


def scale_for(low: float, high: float, parts: int) -> Scale:
    """Return the scale that holds `low` to `high`, divided by marks into so many parts.

    Its ends are multiples of a round number that is small against the range: they move seldom, and waste little.
    """
    low, high = (max(-_GREATEST, min(_GREATEST, value)) for value in (low, high))
    if not high - low > max(1e-9 * abs(low), 1e-9 * abs(high), _LEAST):
        margin = abs(low) * 0.5 if abs(low) > _LEAST else 1.0
        low, high = low - margin, high + margin
    grain = _round_number((high - low) / 8)
    start, end = math.floor(low / grain + 1e-9), math.ceil(high / grain - 1e-9)
    while end == start or not _is_short((end - start) / parts * grain):
        if start > 0 and low - start * grain < end * grain - high:
            start -= 1
        else:
            end += 1
    return Scale(start * grain, end * grain, (end - start) / parts * grain)


def _is_short(step: float) -> bool:
    """Return whether a number has at most two significant digits, so that the marks are easy to read."""
    return math.isclose(step, float(f"{step:.2g}"))


def _round_number(value: float) -> float:
    """Return the least of 1, 2, 2.5 and 5 times a power of ten that is not below `value`."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(factor * power for factor in (1.0, 2.0, 2.5, 5.0, 10.0) if factor * power >= value * (1 - 1e-9))


def round_up(step: int, total: int | None) -> int:
    """Return the end of the axis of steps: a round number, so that the curve does not move with each step."""
    if step < 1:
        return min(10, total or 10)
    power = 10.0 ** math.floor(math.log10(step))
    end = next(math.ceil(factor * power) for factor in _NICE if factor * power >= step)
    return min(end, total) if total and total >= step else end


def draw(columns: Sequence[Column | None], scale: Scale, rows: int) -> list[str]:
    """Return `rows` lines for a curve of two columns a cell, the topmost first; a blank where nothing is.

    Neighbouring points are joined, except over a value that is no number.
    """
    dots = [[0] * ((len(columns) + 1) // 2) for _ in range(rows)]
    height = rows * 4
    before: tuple[int, int] | None = None
    for x, column in enumerate(columns):
        if column is None:
            continue
        low, high = scale.place(column.low, height), scale.place(column.high, height)
        first, last = scale.place(column.first, height), scale.place(column.last, height)
        if before and not column.starts_broken:
            _line(dots, *before, x, first)
        for y in range(low, high + 1):
            _dot(dots, x, y)
        before = None if column.ends_broken else (x, last)
    return ["".join(chr(0x2800 + bits) if bits else " " for bits in row) for row in dots]


def _dot(dots: list[list[int]], x: int, y: int) -> None:
    row = len(dots) * 4 - 1 - y
    dots[row // 4][x // 2] |= _BITS[row % 4][x % 2]


def _line(dots: list[list[int]], x0: int, y0: int, x1: int, y1: int) -> None:
    """Join two points: at each column from where the line enters to where it leaves."""
    steps = x1 - x0
    for number in range(steps + 1):
        here = y0 + (y1 - y0) * max(0.0, number - 0.5) / steps
        there = y0 + (y1 - y0) * min(float(steps), number + 0.5) / steps
        low, high = sorted((round(here), round(there)))
        for y in range(low, high + 1):
            _dot(dots, x0 + number, y)
