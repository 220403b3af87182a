"""Home: the runs, this server, and what to start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.timer import Timer
from textual.widgets import DataTable, Static

from kerneltui.errors import KerneltuiError
from kerneltui.tui.history import KeepsHistory
from kerneltui.tui.keys import HOME, Key, bindings
from kerneltui.tui.pauses import collect, set_aside
from kerneltui.tui.screens.base import BaseScreen
from kerneltui.tui.theme import COLOURS
from kerneltui.tui.widgets.key_footer import KeyFooter
from kerneltui.tui.widgets.lines import Note
from kerneltui.tui.widgets.pane import Pane
from kerneltui.tui.widgets.tables import show_rows

if TYPE_CHECKING:
    from kerneltui.facts.server import Server
    from kerneltui.runs.view_record import RunView


class HomeScreen(KeepsHistory):
    """The list of runs with the live ones first, the server in one card, and the ways to start."""

    KEYS = HOME
    PURPOSE = "Your runs in this directory, this server, and where to start. A run goes on when you leave."
    BINDINGS = bindings(HOME)
    CSS_PATH = "home.tcss"

    @dataclass
    class RunsRead(Message):
        """The runs were read."""

        runs: list[RunView]

        def can_replace(self, message: Message) -> bool:
            """A newer list replaces one that was not yet shown."""
            return isinstance(message, HomeScreen.RunsRead)

    @dataclass
    class ServerRead(Message):
        """The server was read, as far as it is known."""

        server: Server

        def can_replace(self, message: Message) -> bool:
            """A fuller report replaces one that was not yet shown."""
            return isinstance(message, HomeScreen.ServerRead)

    def __init__(self) -> None:
        super().__init__()
        self._every: list[RunView] = []
        self._views: list[RunView] = []
        self._again: Timer | None = None
        self._shown: list[Key] = []

    def compose(self) -> ComposeResult:
        """Lay out the runs over the server and the start card."""
        yield Note("", id="title")
        with Pane(id="runs-pane"):
            runs: DataTable[Content] = DataTable(id="runs", cursor_type="row")
            yield runs
        yield Static("", id="about")
        yield Static(
            "No runs yet. n plans one, g starts from a ready plan, o opens a TRL configuration; `kerneltui demo` shows"
            " the whole way.",
            id="no-runs",
            classes="pane",
        )
        with Horizontal(id="cards"):
            with Pane(id="server-pane") as server:
                server.entitle("This server")
                yield Note("", id="server")
            with Pane(id="start") as start:
                start.entitle("Start")
                yield Static(_start_card())
        yield KeyFooter(id="keys")

    def on_mount(self) -> None:
        """Show at once what is at hand, and read the rest behind the screen."""
        self._set_title(None)
        self._show_keys()
        self.query_one("#runs-pane").display = False
        self.query_one("#server-pane", Pane).wait("reading the server")
        # What they import competes with the first picture, so it waits for that.
        self.call_after_refresh(self._start_reading)

    def _start_reading(self) -> None:
        self.read_runs()
        self.read_server()
        self._again = self.set_interval(2, self.read_runs)

    def on_screen_suspend(self) -> None:
        """Read nothing while another screen is in front."""
        if self._again:
            self._again.pause()

    def on_screen_resume(self) -> None:
        """Read the runs again when coming back, and collect what the screen before has left."""
        if self._again:
            self._again.resume()
            self.read_runs()
            self.call_after_refresh(collect)

    @work(thread=True, exclusive=True, group="runs", description="reading the runs")
    def read_runs(self) -> None:
        """Read the list of runs."""
        from kerneltui.runs.view import view_runs

        try:
            self.post_message(self.RunsRead(view_runs(self.kerneltui.runs, on_first=self._show_first)))
        except KerneltuiError as error:
            self.post_message(self.Failed(error))

    def _show_first(self, views: list[RunView]) -> None:
        if not self._every:
            self.post_message(self.RunsRead(views))

    @work(thread=True, exclusive=True, group="server", description="reading the server")
    def read_server(self, again: bool = False) -> None:
        """Read the server report."""
        session = self.kerneltui.session
        try:
            server = session.server(again=again, on_progress=self.tell, on_part=self._show_server)
        except KerneltuiError as error:
            self.post_message(self.Failed(error))
            return
        self._show_server(server)

    def _show_server(self, server: Server) -> None:
        self.post_message(self.ServerRead(server))

    def on_home_screen_runs_read(self, message: RunsRead) -> None:
        """Show the runs; the cursor stays on its run."""
        from kerneltui.show import RUN_COLUMNS, run_row

        self._every = message.runs
        self._views = self.chosen(message.runs)
        table = cast("DataTable[Content]", self.query_one("#runs", DataTable))
        live = sum(view.phase in ("starting", "running") for view in message.runs)
        pane = self.query_one("#runs-pane", Pane)
        told = (self.selection_words(), f"{live} live", f"{len(message.runs)} in all")
        pane.entitle("Runs", " · ".join(filter(None, told)))
        pane.display = bool(message.runs)
        self.query_one("#no-runs").display = not message.runs
        rows = {view.path: run_row(view) for view in self._views}
        show_rows(table, RUN_COLUMNS, rows, right=("step", "loss", "steps/s"))
        if message.runs and self.focused is None:
            table.focus()
        self._show_notes()

    def on_data_table_row_highlighted(self) -> None:
        """Show what is to be known of the run under the cursor."""
        self._show_notes()

    def _show_notes(self) -> None:
        self._show_keys()
        from kerneltui.advice.finding import SIGNS
        from kerneltui.show import run_notes

        view = self._current()
        notes = run_notes(view) if view else []
        about = self.query_one("#about", Static)
        about.display = bool(notes)
        about.update(
            Content("\n").join(Content.assemble((f"{SIGNS[kind]} ", f"${COLOURS[kind]}"), text) for kind, text in notes)
        )

    @on(BaseScreen.Progress)
    def _progress(self, message: BaseScreen.Progress) -> None:
        """Say what is being found out."""
        self.query_one("#server-pane", Pane).wait(message.text)

    def on_home_screen_server_read(self, message: ServerRead) -> None:
        """Show the server card, and when all is known how well it is."""
        from kerneltui.advice.health import judge_server
        from kerneltui.facts.server import PENDING
        from kerneltui.tui.widgets.findings import count_findings
        from kerneltui.tui.widgets.server_card import server_card

        self.query_one("#server", Note).update(server_card(message.server))
        if PENDING not in message.server.unavailable.values():
            pane = self.query_one("#server-pane", Pane)
            pane.entitle("This server", f"{count_findings(judge_server(message.server))} · d says more")
            pane.wait(None)
        set_aside()
        self._set_title(message.server)

    @on(BaseScreen.Failed)
    def _failed(self, message: BaseScreen.Failed) -> None:
        """Say in the card what is wrong."""
        text = Content("\n").join(Content(part) for part in str(message.error).splitlines())
        self.query_one("#server", Note).update(text)
        self.query_one("#server-pane", Pane).wait(None)

    def action_open(self) -> None:
        """Open the run under the cursor."""
        view = self._current()
        if view is None:
            self.action_new()
            return
        from pathlib import Path

        from kerneltui.runs.directory import RunDirectory
        from kerneltui.tui.screens.run import RunScreen

        self.app.push_screen(RunScreen(RunDirectory(Path(view.path))))

    def on_data_table_row_selected(self) -> None:
        """Enter in the table opens the run."""
        self.action_open()

    def action_new(self) -> None:
        """Plan a new run, or go on with the plan that was left."""
        from kerneltui.tui.screens.wizard import WizardScreen

        if self.kerneltui.draft is not None:
            self.notify("This is the plan that you left; ^n starts over.", markup=False)
        self.app.push_screen(WizardScreen(*self.kerneltui.draft or ()))

    def action_guides(self) -> None:
        """Show the ready plans."""
        from kerneltui.tui.screens.guides import GuidesScreen

        self.app.push_screen(GuidesScreen())

    def action_open_config(self) -> None:
        """Ask for a TRL configuration and plan from it."""
        from kerneltui.tui.screens.open_config import OpenConfig

        self.app.push_screen(OpenConfig())

    def action_kernels(self) -> None:
        """Show the kernels of the Hub."""
        from kerneltui.tui.screens.kernels import KernelsScreen

        self.app.push_screen(KernelsScreen())

    def action_doctor(self) -> None:
        """Show the server report."""
        from kerneltui.tui.screens.doctor import DoctorScreen

        self.app.push_screen(DoctorScreen())

    def action_stop(self) -> None:
        """Ask the run under the cursor to stop with a checkpoint."""
        view = self._current()
        if view is not None:
            self._stop(view)

    @work(thread=True, group="stop", description="asking a run to stop")
    def _stop(self, view: RunView) -> None:
        from pathlib import Path

        from kerneltui.runs.control import ask_run
        from kerneltui.runs.directory import RunDirectory

        try:
            ask_run(RunDirectory(Path(view.path)), "stop")
        except KerneltuiError as error:
            self.app.call_from_thread(self.kerneltui.show_error, error)
            return
        self.app.call_from_thread(self.notify, f"Asked {view.name} to stop at its next step, with a checkpoint.")

    def action_resume(self) -> None:
        """Go on with the run under the cursor."""
        from pathlib import Path

        from kerneltui.runs.directory import RunDirectory

        view = self._current()
        if view is not None:
            self.resume_run(RunDirectory(Path(view.path)))

    def action_refresh(self) -> None:
        """Read the server and the runs again."""
        self.read_runs()
        self.read_server(again=True)

    async def action_quit(self) -> None:
        """Leave; runs go on."""
        await self.app.action_quit()

    def current_run(self) -> RunView | None:
        """Return the run under the cursor."""
        return self._current()

    def show_again(self) -> None:
        """Show the list as it is to be shown now, and read the runs again."""
        self.post_message(self.RunsRead(self._every))
        self.read_runs()

    def _current(self) -> RunView | None:
        table = self.query_one("#runs", DataTable)
        return self._views[table.cursor_row] if 0 <= table.cursor_row < len(self._views) else None

    def _show_keys(self) -> None:
        """Show the keys; those that ask something of a run only where it is one that can do so."""
        view = self._current()
        live = view is not None and view.phase in ("starting", "running")
        ended = view is not None and view.phase not in (None, "starting", "running", "finished")
        hidden = {"open": view is None, "stop": not live, "resume": not ended, "tag": view is None}
        shown = [key for key in HOME if not hidden.get(key.action, False)]
        if shown != self._shown:
            self._shown = shown
            self.query_one(KeyFooter).show(shown)

    def _set_title(self, server: Server | None) -> None:
        parts = [Content.styled("kerneltui", "bold $primary")]
        if server is not None:
            from kerneltui.tui.widgets.server_card import headline

            parts.append(headline(server, recorded=self.kerneltui.recorded is not None))
        self.query_one("#title", Note).update(Content("  ").join(parts))


def _start_card() -> Content:
    actions = ("new", "guides", "open_config", "kernels", "doctor", "refresh", "quit")
    shown = [key for key in HOME if key.action in actions]
    return Content("\n").join(Content.assemble((key.keys, "bold $primary"), f"  {key.label}") for key in shown)
