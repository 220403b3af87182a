"""What terminals cannot or shall not show: colours (NO_COLOR), and signs beyond ASCII."""

from __future__ import annotations

from collections.abc import Mapping

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

# Terminals whose font has few signs beyond ASCII: the Linux console holds 512 characters.
_FEW_SIGNS = ("linux", "vt100", "vt220", "ansi")

# One cell each, so that columns stay. The signs of verdicts are those that every screen and plain output use.
_SIGNS = {
    **dict(zip("✔▲✖·●○◆…", "+!x-*o*~", strict=True)),
    **dict(zip("╭╮╰╯┌┐└┘├┤┬┴┼─━│┃┈▌▐▊▎▁▂▃▄▅▆▇█", "+++++++++++++-=||.||||_.:-=+*#", strict=True)),
    **dict(zip("→←↑↓–—×°“”‘’", "><^v--x'\"\"''", strict=True)),
}
_UPPER_DOTS, _LOWER_DOTS = 0x1B, 0xE4


def _braille(bits: int) -> str:
    """Return a character for the dots of a braille one: whether its upper half, its lower half or both have any."""
    upper, lower = bool(bits & _UPPER_DOTS), bool(bits & _LOWER_DOTS)
    return {(False, False): " ", (True, False): "'", (False, True): ".", (True, True): ":"}[upper, lower]


_TABLE = str.maketrans({**_SIGNS, **{chr(0x2800 + bits): _braille(bits) for bits in range(256)}})


def needs_ascii(environment: Mapping[str, str], encoding: str | None) -> bool:
    """Return whether signs are to be shown in ASCII: asked for by KERNELTUI_ASCII, or needed by the terminal.

    That is one whose encoding (of our standard error, which Textual writes to) is not UTF-8, or a console that TERM
    names and whose font has few signs.
    """
    if asked := environment.get("KERNELTUI_ASCII"):
        return asked != "0"
    return (encoding or "utf-8").lower().replace("-", "") != "utf8" or environment.get("TERM") in _FEW_SIGNS


def to_ascii(text: str, encoding: str | None = None) -> str:
    """Return a text of the same width with ASCII signs; what `encoding` cannot write becomes "?", None writes all."""
    if text.isascii():
        return text
    known = "?" + text[1:] if text[0] == "…" and text[1:2] in ("", " ") else text
    shown = known.translate(_TABLE)
    if encoding is None:
        return shown
    return "".join(char if char.encode(encoding, "ignore") else "?" * cell_len(char) for char in shown)


class AsciiSigns(LineFilter):
    """Shows signs, borders and curves in ASCII; and where `encoding` is given, a "?" for what it cannot write."""

    def __init__(self, encoding: str | None = None) -> None:
        super().__init__()
        self._encoding = encoding

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return a line's segments with other characters."""
        return [Segment(to_ascii(text, self._encoding), style, control) for text, style, control in segments]


class NoColour(LineFilter):
    """Takes all colours away; bold, reverse and underlined text stay. Textual's own filter leaves shades of grey."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return a line's segments without colours."""
        return [Segment(text, style.without_color if style else style, control) for text, style, control in segments]
