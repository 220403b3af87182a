"""The app: themes, the session that its screens share, and the dialog for errors."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.app import App, SystemCommand
from textual.binding import Binding
from textual.filter import LineFilter
from textual.screen import Screen

from kerneltui.errors import KerneltuiError
from kerneltui.text import plain
from kerneltui.tui.filters import AsciiSigns, NoColour, needs_ascii
from kerneltui.tui.keys import EVERYWHERE, MODEL_STEP, OPTIONS_STEP, REVISION_STEP, SERVER_STEP, Key, bindings, name_of
from kerneltui.tui.pauses import screen_first
from kerneltui.tui.screens.home import HomeScreen
from kerneltui.tui.theme import DARK, LIGHT

if TYPE_CHECKING:
    from kerneltui.facts.server import Server
    from kerneltui.plan.plan import Plan
    from kerneltui.runs.directory import RunDirectory
    from kerneltui.tui.session import Session


# Actions that a step of the wizard answers itself.
_OF_A_STEP = {key.action for keys in (SERVER_STEP, MODEL_STEP, REVISION_STEP, OPTIONS_STEP) for key in keys}

# Seconds that a signal leaves the app to give the terminal back.
_PATIENCE = 3.0


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
        # Asked for at every line that is drawn, so made once.
        self._filters_of_ours: tuple[LineFilter, ...] | None = None
        self.draft: tuple[Plan, int] | None = None
        """The plan that the person left in the wizard, and the step that it was at."""
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
        """Show home, and on top of it the run that was asked for; end in order when the terminal goes away."""
        screen_first()
        # By itself Python would end at once, and leave the terminal on the other screen and deaf to its keys.
        with contextlib.suppress(RuntimeError, ValueError):  # where this is not the main thread
            for number in (signal.SIGHUP, signal.SIGTERM):
                asyncio.get_running_loop().add_signal_handler(number, self._end, number)
        self.push_screen(HomeScreen())
        if self._watch is not None:
            from kerneltui.tui.screens.run import RunScreen

            # Leaving the pane that `watch` opened ends the app.
            self.push_screen(RunScreen(self._watch), self.exit)

    def _end(self, number: int) -> None:
        """Leave the screen as a signal asks for, with the exit code that a shell gives it; runs go on.

        A terminal that is gone takes nothing any more, and Textual would wait for ever to write its last words there.
        """
        last = threading.Timer(_PATIENCE, os._exit, (128 + number,))
        last.daemon = True
        last.start()
        self.exit(return_code=128 + number)

    def on_unmount(self) -> None:
        """End the asker."""
        if self._session is not None:
            self._session.close()

    @property
    def _background_screens(self) -> list[Screen[Any]]:
        """The screens that can be seen through the one in front.

        Textual always counts the one right below, so that each change of it draws all of the front anew.
        """
        return super()._background_screens if self.screen.styles.background.a < 1 else []

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Return what every line goes through: no colour where NO_COLOR is set, ASCII where that is needed."""
        if self._filters_of_ours is None:
            encoding = getattr(sys.__stderr__, "encoding", None)
            lacking = None if codecs.lookup(encoding or "utf-8").name == "utf-8" else encoding
            signs = [AsciiSigns(lacking)] if needs_ascii(os.environ, encoding) else []
            self._filters_of_ours = (*([NoColour()] if self.no_color else []), *signs)
        return [*([] if self.no_color else super().get_line_filters()), *self._filters_of_ours]

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Offer every key of the screen as a command too, from the one table, and the two themes."""
        actions: dict[str, Key] = {}
        for key in (*getattr(screen, "KEYS", ()), EVERYWHERE[0]):
            if screen.check_action(key.action.partition("(")[0], ()) is not False:
                actions.setdefault(key.action, key)
        for action, key in actions.items():
            place = getattr(screen, "step", screen) if action in _OF_A_STEP else screen
            yield SystemCommand(
                key.label,
                f"{name_of(key)}  {key.help}",
                lambda place=place, action=action: self.call_next(place.run_action, action),
            )
        other = LIGHT if self.theme == DARK.name else DARK
        yield SystemCommand(
            "Light theme" if other is LIGHT else "Dark theme",
            "Change the colours",
            lambda: setattr(self, "theme", other.name),
        )

    def notify(self, message: str, *, title: str = "", **options: Any) -> None:
        """Show a message for a while, as plain text: names and reasons in it come from outside."""
        super().notify(plain(message), title=plain(title), **{"markup": False, **options})

    def show_error(self, error: KerneltuiError) -> None:
        """Open a dialog on an error: what happened, why, and the next step."""
        from kerneltui.tui.screens.dialog import ErrorDialog

        self.push_screen(ErrorDialog(error))

    def action_help(self) -> None:
        """Show what the screen is for and all its keys."""
        from kerneltui.tui.screens.help import HelpScreen

        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen.of(self.screen))
