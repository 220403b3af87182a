"""The live pane: one run as it goes on, read from its record. Leaving it leaves the run alone."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.reactive import var
from textual.widgets import Footer
from textual.worker import get_current_worker

from kerneltui.advice.about_trainers import good_curves
from kerneltui.errors import KerneltuiError
from kerneltui.text import duration
from kerneltui.tui.expressions import ask_expression
from kerneltui.tui.keys import RUN, bindings
from kerneltui.tui.pauses import set_aside
from kerneltui.tui.resuming import ResumesRuns
from kerneltui.tui.screens.base import BaseScreen
from kerneltui.tui.terminal_title import TerminalTitle, title_of
from kerneltui.tui.widgets.banner import Banner
from kerneltui.tui.widgets.charts import Charts, Readings
from kerneltui.tui.widgets.confirm import Confirm
from kerneltui.tui.widgets.gpu_panel import GpuLine, GpuPanel
from kerneltui.tui.widgets.log_view import LogPane
from kerneltui.tui.widgets.run_header import RunHeader

if TYPE_CHECKING:
    from kerneltui.runs.directory import RunDirectory
    from kerneltui.runs.live_view import LiveView
    from kerneltui.runs.log import LogView

Action = Literal["checkpoint", "stop", "kill"]
_PURPOSE = "A run as it goes on. Nothing that you do here but k, s, K and r touches it; it goes on when you leave."
_PANES = ("charts", "gpus", "log")
_ASKED = {
    "checkpoint": "Asked for a checkpoint at the next step.",
    "stop": "Asked to stop at the next step, with a checkpoint and the final model.",
    "kill": "Asked to end at once.",
}


class RunScreen(ResumesRuns):
    """A run: curves, GPUs, log, and how it ended. Its result is the line that finds an active run again, else "".

    `view` is what the numbers show, renewed every `INTERVAL` seconds; `curves` what the charts show, renewed every
    `CURVES` seconds at most; `log_lines` what the log shows.
    """

    KEYS = RUN
    BINDINGS = bindings(RUN)
    CSS_PATH = "run.tcss"
    AUTO_FOCUS = "#log"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-normal"), (160, "-wide")]
    VERTICAL_BREAKPOINTS = [(0, "-short"), (30, "-normal-height"), (45, "-tall")]
    INTERVAL = 1.0
    CURVES = 2.0
    PAUSE = 0.1

    view: var[LiveView | None] = var(None)
    curves: var[LiveView | None] = var(None)
    log_lines: var[LogView | None] = var(None)
    charted: var[tuple[str, ...]] = var(())

    @dataclass
    class Read(Message):
        """The run was read; `fresh_curves` tells that the charts are due."""

        view: LiveView
        log: LogView
        fresh_curves: bool

        def can_replace(self, message: Message) -> bool:
            """A newer snapshot takes the place of one that was not yet shown, and its duty to the charts."""
            if not isinstance(message, RunScreen.Read):
                return False
            self.fresh_curves |= message.fresh_curves
            return True

    @dataclass
    class Asked(Message):
        """A request was written."""

        action: Action

    def __init__(self, run: RunDirectory) -> None:
        super().__init__()
        self.run_directory = run
        self._left = threading.Event()
        self._terminal_title: TerminalTitle | None = None

    def compose(self) -> ComposeResult:
        """Lay out head, charts and GPUs over the log."""
        yield RunHeader(id="header").data_bind(RunScreen.view)
        yield Banner(id="banner").data_bind(RunScreen.view)
        with Horizontal(id="upper"):
            yield Charts(id="charts").data_bind(view=RunScreen.curves)
            with Vertical(id="side"):
                yield GpuPanel(id="gpus", more=": 2").data_bind(RunScreen.view)
                yield Readings(id="readings").data_bind(RunScreen.charted, view=RunScreen.curves)
        yield GpuLine(id="gpu-line").data_bind(RunScreen.view)
        yield LogPane(id="log").data_bind(RunScreen.log_lines)
        yield Footer(show_command_palette=False)

    @property
    def PURPOSE(self) -> str:  # noqa: N802 - the name that the help screen looks for
        """Return what this screen is for, and what the curves of this trainer should do."""
        trainer = self.view.trainer if self.view else None
        good = good_curves(trainer) if trainer else ""
        return f"{_PURPOSE}\n\nA good run of {trainer}: {good}." if good else _PURPOSE

    def on_mount(self) -> None:
        """Begin to read."""
        self._terminal_title = TerminalTitle(self.app)
        self.read_run()

    def on_unmount(self) -> None:
        """End reading at once, not at its next turn; the terminal has its own title again."""
        self._left.set()
        if self._terminal_title is not None:
            self._terminal_title.put_back()

    @work(thread=True, exclusive=True, group="live", description="reading the run")
    def read_run(self) -> None:
        """Read the run again and again, in bounded slices, until the screen is left."""
        from time import monotonic

        from kerneltui.runs.live import LiveRun
        from kerneltui.runs.log import LogTail

        worker, run = get_current_worker(), LiveRun(self.run_directory)
        log: LogTail | None = None
        curves_due = 0.0
        while not worker.is_cancelled and not self._left.is_set():
            view = run.poll()
            if view.log is not None and (log is None or log.path != view.log):
                log = LogTail(view.log)
            lines = log.poll() if log else _no_lines()
            fresh = monotonic() >= curves_due or not view.active
            self.post_message(self.Read(view, lines, fresh))
            if fresh:
                curves_due = monotonic() + self.CURVES
            self._left.wait(self.INTERVAL / 20 if view.behind or lines.behind else self.INTERVAL)

    def on_run_screen_read(self, message: Read) -> None:
        """Show what was read; the keys follow the phase."""
        was_active = self.view.active if self.view else None
        if self.view and os.environ.get("KERNELTUI_BELL") and _alerts(message.view) - _alerts(self.view):
            self.app.bell()
        if self.view is None:
            set_aside()
        self.view = message.view
        # One after the other: drawn at once, they would keep a key waiting.
        self.set_timer(self.PAUSE, partial(setattr, self, "log_lines", message.log))
        if message.fresh_curves:
            self.set_timer(2 * self.PAUSE, partial(setattr, self, "curves", message.view))
            if self._terminal_title is not None:
                self._terminal_title.show(title_of(message.view))
        if was_active != message.view.active:
            self.refresh_bindings()
        self._make_room()

    def on_charts_arranged(self, message: Charts.Arranged) -> None:
        """Read out those metrics that are no charts."""
        message.stop()
        self.charted = message.shown
        self._make_room()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer what can be asked of a run only while it is active."""
        if action in ("checkpoint", "stop", "kill"):
            return self.view is not None and self.view.active
        if action == "resume":
            return self.view is not None and self.view.resumable
        return super().check_action(action, parameters)

    def action_pane(self, name: str) -> None:
        """Enlarge one pane, or show all again."""
        for pane in _PANES:
            self.set_class(pane == name and not self.has_class(f"-only-{pane}"), f"-only-{pane}")

    def action_follow(self) -> None:
        """Follow the end of the log, or stop following."""
        self.query_one(LogPane).action_follow()

    def action_search(self) -> None:
        """Ask what to look for in the log."""
        log = self.query_one(LogPane)
        words = "A regular expression; a word is one too. n goes to the next match below, N above; f follows again."
        ask_expression(
            self, "Search the log", words, log.searched, lambda pattern: log.search(pattern) if pattern else None
        )

    def action_again(self, up: bool) -> None:
        """Go to the next match, asking first what to look for where nothing was."""
        if not self.query_one(LogPane).search_again(up=up):
            self.action_search()

    def action_signs(self, up: bool) -> None:
        """Go to the next error or warning of the log."""
        self.query_one(LogPane).step_signs(up=up)

    def action_checkpoint(self) -> None:
        """Ask for a checkpoint."""
        self.ask("checkpoint")

    def action_stop(self) -> None:
        """Ask whether to stop with a checkpoint."""
        self._confirm("stop", Confirm(f"Stop {self.run_directory.name}?", stop_words(self.view), "Stop"))

    def action_kill(self) -> None:
        """Ask whether to end it at once."""
        title = f"End {self.run_directory.name} at once?"
        self._confirm("kill", Confirm(title, kill_words(self.view), "End it", no="Leave it running", grave=True))

    def action_resume(self) -> None:
        """Check the checkpoints, and ask whether to go on from the newest good one."""
        self.resume_run(self.run_directory)

    def action_leave(self) -> None:
        """Leave; say how an active run is found again."""
        line = f"kerneltui watch {self.run_directory.path}" if self.view is None or self.view.active else ""
        if line:
            words = f"{self.run_directory.name} goes on. Find it again with: {line}"
            self.app.notify(words, markup=False, timeout=8)
        self.dismiss(line)

    @work(thread=True, group="ask", description="asking something of the run")
    def ask(self, action: Action) -> None:
        """Write a request."""
        from kerneltui.runs.control import ask_run

        try:
            ask_run(self.run_directory, action)
        except KerneltuiError as error:
            self.post_message(self.Failed(error))
        else:
            self.post_message(self.Asked(action))

    def on_run_screen_asked(self, message: Asked) -> None:
        """Say that it was asked; the banner says when it is carried out."""
        self.notify(_ASKED[message.action], markup=False)

    @on(BaseScreen.Failed)
    def _failed(self, message: BaseScreen.Failed) -> None:
        """Say what happened, why, and the next step."""
        from kerneltui.tui.screens.dialog import ErrorDialog

        self.app.push_screen(ErrorDialog(message.error))

    def _confirm(self, action: Action, question: Confirm) -> None:
        def answered(yes: bool | None) -> None:
            if yes:
                self.ask(action)

        self.app.push_screen(question, answered)

    def _make_room(self) -> None:
        """Take away the readings when every metric is a chart."""
        view = self.curves
        names = {*view.metrics, *view.evaluations} if view else set()
        self.set_class(names <= set(self.charted), "-all-read")


def stop_words(view: LiveView | None) -> str:
    """Return what a stop does, and when the next checkpoint comes without it."""
    words = "It stops at its next optimizer step and saves a checkpoint and the final model."
    if view is None or view.next_checkpoint is None:
        return words
    when = f"in {view.next_checkpoint} steps"
    if view.seconds_to_checkpoint is not None:
        when += f", about {duration(view.seconds_to_checkpoint)}"
    return f"{words}\n\nIts next regular checkpoint comes {when}."


def kill_words(view: LiveView | None) -> str:
    """Return what is lost when a run is ended at once."""
    words = "All its processes are ended now, without a checkpoint."
    if view is None or view.last_checkpoint is None:
        return f"{words}\n\nNo checkpoint was written yet: all that it learned is lost."
    steps = (view.step or 0) - view.last_checkpoint.step
    lost = f"{steps} steps" if steps > 0 else "nothing"
    return f"{words}\n\nThe last one is of step {view.last_checkpoint.step}; what came after it ({lost}) is lost."


def _alerts(view: LiveView) -> set[str]:
    """Return the ids of the alerts that hold."""
    return {notice.id for notice in view.notices if notice.event == "alert" and notice.id}


def _no_lines() -> LogView:
    from kerneltui.runs.log import LogView

    return LogView()
