"""Help: what a screen is for and all its keys, from the one table."""

from __future__ import annotations

from rich.cells import cell_len
from textual.content import Content
from textual.screen import Screen

from kerneltui.tui.keys import EVERYWHERE, Key
from kerneltui.tui.screens.dialog import Dialog


class HelpScreen(Dialog[None]):
    """The help of one screen, which names its keys in `KEYS` and what it is for in `PURPOSE`."""

    @classmethod
    def of(cls, screen: Screen[object]) -> HelpScreen:
        """Return the help of a screen."""
        keys: tuple[Key, ...] = getattr(screen, "KEYS", ())
        return cls(getattr(screen, "PURPOSE", ""), (*keys, *EVERYWHERE))

    def __init__(self, text: str, keys: tuple[Key, ...]) -> None:
        shown = [(key.shown_as or key.keys.split(",")[0], key.help) for key in keys]
        width = max(cell_len(name) for name, _ in shown)
        lines = [
            Content.assemble((f"{name:>{width}}", "bold $primary"), f"  {text}") for name, text in dict(shown).items()
        ]
        super().__init__("Help", Content("\n").join([*([Content(text), Content("")] if text else []), *lines]))
