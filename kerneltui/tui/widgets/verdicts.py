"""A verdict as a sign in its colour, alone or with a word."""

from __future__ import annotations

from rich.text import Text

from kerneltui.advice.finding import SIGNS

# The signs are those of findings; the names are ANSI colours, which every terminal has.
_STYLES = {
    "ready": ("ready", "ready", "green"),
    "care": ("warn", "with care", "yellow"),
    "refused": ("block", "refused", "red"),
    "unknown": ("unknown", "unknown", "dim"),
}


def verdict_cell(kind: str) -> Text:
    """Return the sign of "ready", "care", "refused" or "unknown"."""
    sign, _, style = _STYLES[kind]
    return Text(SIGNS[sign], style=style)


def verdict_words(kind: str) -> Text:
    """Return the sign of a verdict and its word."""
    sign, word, style = _STYLES[kind]
    return Text(f"{SIGNS[sign]} {word}", style=style)
