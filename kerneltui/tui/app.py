"""The app: themes, the session that its screens share, and the dialog for errors."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from textual.app import App, SystemCommand
from textual.binding import Binding
from textual.screen import Screen

from kerneltui.errors import KerneltuiError
from kerneltui.tui.keys import EVERYWHERE, bindings
from kerneltui.tui.screens.home import HomeScreen
from kerneltui.tui.theme import DARK, LIGHT

if TYPE_CHECKING:
    from kerneltui.facts.server import Server
    from kerneltui.runs.directory import RunDirectory
    from kerneltui.tui.session import Session


class KerneltuiApp(App[str]):
    """The full screen. Its result is a line to print when it has ended, such as how to find a run again."""

    TITLE = "kerneltui"
    CSS_PATH = "app.tcss"
    ENABLE_COMMAND_PALETTE = True
    BINDINGS = [*bindings(EVERYWHERE), Binding("ctrl+q", "quit", "Quit", show=False)]
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-normal"), (160, "-wide")]
    VERTICAL_BREAKPOINTS = [(0, "-short"), (30, "-normal-height"), (45, "-tall")]

    def __init__(
        self,
        python: Path,
        runs: Path,
        *,
        recorded: Server | None = None,
        watch: RunDirectory | None = None,
        session: Session | None = None,
    ) -> None:
        super().__init__()
        self.python = python
        self.runs = runs
        self._recorded = recorded
        self._watch = watch
        self._session = session
        self.register_theme(DARK)
        self.register_theme(LIGHT)
        self.theme = DARK.name

    @property
    def recorded(self) -> Server | None:
        """The report of another machine that the app was started with, None for this one."""
        return self._session.recorded if self._session else self._recorded

    @property
    def session(self) -> Session:
        """The session, made when it is first needed: what it imports must not delay the first picture."""
        if self._session is None:
            from kerneltui.tui.session import Session

            self._session = Session(self.python, self.runs, recorded=self._recorded)
        return self._session

    def on_mount(self) -> None:
        """Show home, and on top of it the run that was asked for."""
        self.push_screen(HomeScreen())
        if self._watch is not None:
            from kerneltui.tui.screens.run import RunScreen

            # Leaving the pane that `watch` opened ends the app.
            self.push_screen(RunScreen(self._watch), self.exit)

    def on_unmount(self) -> None:
        """End the asker."""
        if self._session is not None:
            self._session.close()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Offer every key of the screen as a command too, and the two themes."""
        for binding in screen.active_bindings.values():
            if binding.enabled and binding.binding.description:
                action = binding.binding.action
                yield SystemCommand(
                    binding.binding.description,
                    f"key {self.get_key_display(binding.binding)}",
                    lambda action=action: self.call_next(screen.run_action, action),
                )
        other = LIGHT if self.theme == DARK.name else DARK
        yield SystemCommand(
            "Light theme" if other is LIGHT else "Dark theme",
            "Change the colours",
            lambda: setattr(self, "theme", other.name),
        )

    def show_error(self, error: KerneltuiError) -> None:
        """Open a dialog on an error: what happened, why, and the next step."""
        from kerneltui.tui.screens.dialog import ErrorDialog

        self.push_screen(ErrorDialog(error))

    def action_help(self) -> None:
        """Show what the screen is for and all its keys."""
        from kerneltui.tui.screens.help import HelpScreen

        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen.of(self.screen))
