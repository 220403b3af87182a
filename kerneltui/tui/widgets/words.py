"""Numbers, spans of time and names in few cells."""

from __future__ import annotations

import math

from rich.cells import cell_len

from kerneltui.text import cut_middle

ARROWS = {"rising": "↑", "falling": "↓", "steady": "→", None: " "}


def short(value: float | None) -> str:
    """Return a value in at most four significant digits; "NaN", "inf" and "-inf" as words, None as a dash."""
    if value is None:
        return "–"
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{value:.0f}"
    if value and not 1e-3 <= abs(value) < 1e6:
        return f"{value:.3g}"
    return f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}"


def thousands(value: float) -> str:
    """Return a count in three significant digits: "950", "31.2k", "1.24M"."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def gib(size: float | None) -> str:
    """Return bytes in GiB, without the unit: "0.4", "71", None as a dash."""
    if size is None:
        return "–"
    value = size / 2**30
    return f"{value:.0f}" if value >= 9.95 else f"{value:.1f}"


def pad(text: str, cells: int, *, right: bool = False) -> str:
    """Return `text` cut or filled to exactly so many cells."""
    text = cut_middle(text, cells)
    space = " " * (cells - cell_len(text))
    return space + text if right else text + space
