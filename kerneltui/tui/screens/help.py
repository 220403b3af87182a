"""Help: what a screen is for and all its keys, from the one table."""

from __future__ import annotations

import textwrap

from rich.cells import cell_len
from textual.content import Content
from textual.screen import Screen

from kerneltui.tui.keys import EVERYWHERE, Key, name_of
from kerneltui.tui.screens.dialog import Dialog


class HelpScreen(Dialog[None]):
    """The help of one screen, which names its keys in `KEYS` and what it is for in `PURPOSE`."""

    @classmethod
    def of(cls, screen: Screen[object]) -> HelpScreen:
        """Return the help of a screen, as wide as its dialog will be."""
        keys: tuple[Key, ...] = getattr(screen, "KEYS", ())
        return cls(getattr(screen, "PURPOSE", ""), (*keys, *EVERYWHERE), cls.text_width(screen.size.width))

    def __init__(self, text: str, keys: tuple[Key, ...], width: int) -> None:
        shown = {name_of(key): key.help for key in keys}
        column = max(map(cell_len, shown))
        lines = [line for name, told in shown.items() for line in _lines(name, told, column, width)]
        super().__init__("Help", Content("\n").join([*([Content(text), Content("")] if text else []), *lines]))


def _lines(name: str, told: str, column: int, width: int) -> list[Content]:
    """Return a key and what it does; what follows the first line stands under it."""
    first, *rest = textwrap.wrap(told, max(20, width - column - 2))
    indent = " " * (column + 2)
    blank = " " * (column - cell_len(name))
    return [Content.assemble(blank, (name, "bold $primary"), f"  {first}"), *(Content(indent + line) for line in rest)]
