"""A verdict as a sign in its colour."""

from __future__ import annotations

from rich.text import Text

from kerneltui.advice.finding import SIGNS

# The signs are those of findings; the names are ANSI colours, which every terminal has.
_STYLES = {
    "ready": ("ready", "green"),
    "care": ("warn", "yellow"),
    "refused": ("block", "red"),
    "unknown": ("unknown", "dim"),
}


def verdict_cell(kind: str) -> Text:
    """Return the sign of "ready", "care", "refused" or "unknown"."""
    sign, style = _STYLES[kind]
    return Text(SIGNS[sign], style=style)
