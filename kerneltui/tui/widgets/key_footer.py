"""The footer: the keys of a screen from the one table, also those that the focused widget answers itself."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from textual.content import Content
from textual.widgets import Static

from kerneltui.tui.keys import Key


class KeyFooter(Static):
    """One line with the keys that are to be shown, as many as fit."""

    DEFAULT_CSS = "KeyFooter { dock: bottom; height: 1; padding: 0 1; }"

    def show(self, keys: Sequence[Key]) -> None:
        """Show these keys."""
        parts: list[Content] = []
        room = max(40, self.app.size.width - 2)
        for key in keys:
            name = key.shown_as or key.keys.split(",")[0]
            room -= cell_len(f"{name} {key.label}  ")
            if key.footer and room >= 0:
                parts.append(Content.assemble((name, "bold $primary"), f" {key.label}"))
        self.update(Content("  ").join(parts))
