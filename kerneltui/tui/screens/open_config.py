"""Asking for a TRL configuration file to start from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from kerneltui.errors import KerneltuiError

if TYPE_CHECKING:
    from kerneltui.tui.app import KerneltuiApp


class OpenConfig(ModalScreen[None]):
    """Takes `[TRAINER] PATH`; opens the wizard on it, at its last step."""

    BINDINGS = [Binding("escape", "dismiss", "Close")]
    CSS_PATH = "dialog.tcss"

    def compose(self) -> ComposeResult:
        """Lay out one line to type in."""
        with Vertical(classes="dialog--box") as box:
            box.border_title = "Open a TRL configuration"
            box.border_subtitle = "enter Open   esc Close"
            yield Static(
                "Its path, as you would give it to `trl sft --config`; another trainer before it: dpo dpo.yaml"
            )
            yield Input(placeholder="config.yaml", id="path")
            yield Static("", id="problem", classes="quiet")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Open it, or say why that cannot be."""
        from kerneltui.plan.plan import make_plan
        from kerneltui.tui.screens.wizard import WizardScreen

        words = event.value.split(maxsplit=1)
        trainer, path = (words[0], words[1]) if len(words) == 2 else ("sft", event.value.strip())
        try:
            plan = make_plan(trainer, [path], cwd=Path.cwd())
        except KerneltuiError as error:
            self.query_one("#problem", Static).update(" ".join(str(error).splitlines()))
            return
        self.app.switch_screen(WizardScreen(plan))

    @property
    def kerneltui(self) -> KerneltuiApp:
        """The app, with its own type."""
        return cast("KerneltuiApp", self.app)
