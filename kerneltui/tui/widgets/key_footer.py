"""The footer: the keys of a screen from the one table, also those that the focused widget answers itself."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content
from textual.widgets import Static

from kerneltui.tui.keys import EVERYWHERE, Key, name_of


class KeyFooter(Static):
    """One line with the keys that are to be shown: as many as fit, and Help at its end in any case."""

    DEFAULT_CSS = "KeyFooter { dock: bottom; height: 1; padding: 0 1; }"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__("", id=id)
        self._keys: tuple[Key, ...] = ()

    def show(self, keys: Sequence[Key], *, typing: bool = False) -> None:
        """Show these keys; while letters are typed, those that work all the same."""
        given = (*keys, EVERYWHERE[0])
        self._keys = tuple(filter(None, (key.while_typing() for key in given))) if typing else given
        self._draw()

    def on_resize(self) -> None:
        """Show as many as fit now."""
        self._draw()

    def _draw(self) -> None:
        *parts, last = [
            Content.assemble((name_of(key), "bold $primary"), f" {key.label}") for key in self._keys if key.footer
        ] or [Content("")]
        room = self.app.size.width - 2 - last.cell_length
        kept = []
        for part in parts:
            room -= part.cell_length + 2
            kept += [part] if room >= 0 else []
        self.update(Content("  ").join([*kept, last]))
