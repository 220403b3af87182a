"""The look: one theme for dark terminals and one for light ones; colours of verdicts always come with a sign."""

from __future__ import annotations

from textual.theme import Theme

from kerneltui.advice.finding import SIGNS

DARK = Theme(
    name="kerneltui-dark",
    primary="#7aa2f7",
    secondary="#7b84a8",
    accent="#7aa2f7",
    success="#9ece6a",
    warning="#e0af68",
    error="#f7768e",
    foreground="#c8d0e8",
    background="#15161e",
    surface="#1a1b26",
    panel="#24283b",
    dark=True,
    variables={"border": "#3b4261", "border-blurred": "#3b4261", "block-cursor-text-style": "bold"},
)
LIGHT = Theme(
    name="kerneltui-light",
    primary="#2e5cbf",
    secondary="#6a7188",
    accent="#2e5cbf",
    success="#3f7a1e",
    warning="#8f5e15",
    error="#b3264b",
    foreground="#2b3045",
    background="#f4f4f7",
    surface="#ffffff",
    panel="#e6e7ee",
    dark=False,
    variables={"border": "#c0c4d4", "border-blurred": "#c0c4d4", "block-cursor-text-style": "bold"},
)

# Colour of a verdict or severity, as a name of the theme.
COLOURS = {"ready": "success", "block": "error", "warn": "warning", "note": "secondary", "unknown": "secondary"}


def signed(kind: str) -> str:
    """Return the sign of a severity or verdict in its colour, as content markup for `textual.content`."""
    return f"[${COLOURS[kind]}]{SIGNS[kind]}[/]"
