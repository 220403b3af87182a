"""A value's last minutes in a few cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kerneltui.runs.samples import History

# No full block: the lines of the panel stand apart.
_BLOCKS = " ▁▂▃▄▅▆▇"
# How many samples the history has at most.
_HISTORY = 150


def sparkline(history: History, top: float | None, width: int) -> str:
    """Return the last samples as blocks, the newest at the right; a blank where nothing was read.

    Each block is the mean of as many samples as let the whole history stand in `width` cells.
    """
    if not top or width < 1:
        return " " * width
    size = -(-_HISTORY // width)
    groups = [history[max(0, end - size) : end] for end in range(len(history), 0, -size)][:width]
    return "".join(_block(group, top) for group in reversed(groups)).rjust(width)


def _block(group: History, top: float) -> str:
    values = [value for value in group if value is not None]
    if not values:
        return " "
    part = min(1.0, max(0.0, sum(values) / len(values) / top))
    return _BLOCKS[max(1, round(part * (len(_BLOCKS) - 1)))]
