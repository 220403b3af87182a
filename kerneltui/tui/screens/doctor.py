"""The server report on screen: what is wrong first, then the GPUs as they are now, the software, and the rest."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.reactive import var
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option
from textual.worker import get_current_worker

from kerneltui.advice.finding import SIGNS, Finding
from kerneltui.advice.show import finding_lines
from kerneltui.errors import KerneltuiError
from kerneltui.facts.report import card_lines, report_lines, software_lines
from kerneltui.facts.server import PENDING, Server
from kerneltui.paths import cache_directory, write_atomically
from kerneltui.runs.live_machine import LiveMachine, recorded_machine
from kerneltui.runs.samples import MachineView
from kerneltui.text import plain_line
from kerneltui.tui.keys import DOCTOR, bindings
from kerneltui.tui.screens.base import BaseScreen
from kerneltui.tui.screens.dialog import Dialog
from kerneltui.tui.widgets.findings import count_findings, finding_detail, finding_line
from kerneltui.tui.widgets.gpu_panel import GpuPanel
from kerneltui.tui.widgets.key_footer import KeyFooter
from kerneltui.tui.widgets.pane import Pane
from kerneltui.tui.widgets.report_pane import ReportPane
from kerneltui.tui.widgets.server_card import headline


class DoctorScreen(BaseScreen[None]):
    """The findings of one server over its GPUs, whose values are read anew every two seconds, and its software."""

    KEYS = DOCTOR
    PURPOSE = "What this server has, and what is wrong with it. The GPUs' values are live; r reads all the rest again."
    BINDINGS = bindings(DOCTOR)
    CSS_PATH = "doctor.tcss"
    AUTO_FOCUS = "#findings"

    machine: var[MachineView | None] = var(None)

    @dataclass
    class Read(Message):
        """The server was read, as far as it is known; its findings come when all is."""

        server: Server
        findings: tuple[Finding, ...] | None = None

    @dataclass
    class Sampled(Message):
        """The machine was sampled."""

        machine: MachineView

        def can_replace(self, message: Message) -> bool:
            """A newer sample replaces one that was not yet shown."""
            return isinstance(message, DoctorScreen.Sampled)

    def __init__(self) -> None:
        super().__init__()
        self._server: Server | None = None
        self._findings: tuple[Finding, ...] = ()
        self._sampling = False
        self._left = threading.Event()

    def compose(self) -> ComposeResult:
        """Lay out the findings over the GPUs and the report."""
        yield Static("", id="title")
        with Pane(id="findings-pane"):
            yield OptionList(id="findings")
            yield Static("", id="why")
        with Horizontal(id="body"):
            with Vertical(id="gpu-column"):
                yield GpuPanel(id="gpus").data_bind(view=DoctorScreen.machine)
                yield ReportPane("In detail", card_lines, id="cards")
            yield ReportPane("Software and surroundings", software_lines, id="software")
        yield KeyFooter(id="keys")

    def on_mount(self) -> None:
        """Read the server."""
        self.query_one(KeyFooter).show(DOCTOR)
        self.query_one("#findings").display = False
        self.query_one("#findings-pane", Pane).entitle("Findings")
        self._tell_progress("reading the server")
        self.read_server()

    def on_unmount(self) -> None:
        """End the sampling at once, not at its next turn."""
        self._left.set()

    @work(thread=True, exclusive=True, group="server", description="reading the server")
    def read_server(self, again: bool = False) -> None:
        """Read the server report and judge it."""
        from kerneltui.advice.health import judge_server

        try:
            session = self.kerneltui.session
            server = session.server(again=again, on_progress=self.tell, on_part=self._tell_part)
        except KerneltuiError as error:
            self.post_message(self.Failed(error))
            return
        self.post_message(self.Read(server, judge_server(server)))

    def _tell_part(self, server: Server) -> None:
        self.post_message(self.Read(server))

    @work(thread=True, exclusive=True, group="machine", description="sampling the GPUs")
    def sample(self, server: Server) -> None:
        """Sample the machine until the screen is left."""
        worker = get_current_worker()
        with LiveMachine(server, self.kerneltui.runs.parent) as machine:
            while not worker.is_cancelled and not self._left.is_set():
                if view := machine.poll():
                    self.post_message(self.Sampled(view))
                self._left.wait(0.2)

    def on_doctor_screen_read(self, message: Read) -> None:
        """Show the report; sample the GPUs where they are those of this machine."""
        self._server = message.server
        self.query_one("#title", Static).update(headline(message.server, recorded=self.kerneltui.recorded is not None))
        for pane in self.query(ReportPane):
            pane.show(message.server)
        if message.findings is not None:
            self._findings = message.findings
            self._show_findings()
        if not self._sampling and message.server.unavailable.get("gpus") != PENDING:
            self._sampling = True
            self.machine = recorded_machine(message.server)
            if self.kerneltui.session.recorded is None:
                self.sample(message.server)

    def on_doctor_screen_sampled(self, message: Sampled) -> None:
        """Show the newest values."""
        self.machine = message.machine

    @on(BaseScreen.Progress)
    def _progress(self, message: BaseScreen.Progress) -> None:
        """Say what is being found out."""
        self._tell_progress(message.text)

    @on(BaseScreen.Failed)
    def _failed(self, message: BaseScreen.Failed) -> None:
        """Say what is wrong."""
        self.query_one("#findings-pane", Pane).wait(None)
        self.query_one("#why", Static).update(Content(plain_line(str(message.error))))

    def on_option_list_option_highlighted(self) -> None:
        """Say why the finding under the cursor is one."""
        self._explain()

    def on_option_list_option_selected(self) -> None:
        """Enter shows it in full."""
        self.action_details()

    def action_details(self) -> None:
        """Show the finding under the cursor in full."""
        if finding := self._current():
            self.app.push_screen(Dialog("Finding", finding_detail(finding)))

    def action_copy_fix(self) -> None:
        """Copy the command that mends the finding under the cursor."""
        finding = self._current()
        command = next((fix.command for fix in finding.fixes if fix.command), None) if finding else None
        if command is None:
            self.notify("No command mends this one; enter says more.", severity="warning")
            return
        self.app.copy_to_clipboard(command)
        self.notify(command, title="Copied", markup=False)

    def action_copy_report(self) -> None:
        """Copy the report; a file has it too, since not every terminal lets a program copy."""
        if self._server is None:
            return
        text = "\n".join([*finding_lines(self._findings), "", *report_lines(self._server), ""])
        self.app.copy_to_clipboard(text)
        path = cache_directory() / "doctor.txt"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, text.encode())
        except (KerneltuiError, OSError) as error:
            self.notify(f"No file of it could be written: {error}", title="Copied", markup=False)
            return
        self.notify(f"It is in {path} too, if your terminal does not let programs copy.", title="Copied", markup=False)

    def action_refresh(self) -> None:
        """Read the server again."""
        self.read_server(again=True)

    def action_back(self) -> None:
        """Leave."""
        self.dismiss()

    def _current(self) -> Finding | None:
        at = self.query_one("#findings", OptionList).highlighted
        return self._findings[at] if at is not None and at < len(self._findings) else None

    def _tell_progress(self, text: str) -> None:
        self.query_one("#findings-pane", Pane).wait(text)

    def _show_findings(self) -> None:
        choices = self.query_one("#findings", OptionList)
        pane = self.query_one("#findings-pane", Pane)
        pane.entitle("Findings", count_findings(self._findings))
        pane.wait(None)
        at = choices.highlighted or 0
        choices.set_options(Option(finding_line(finding)) for finding in self._findings)
        choices.display = bool(self._findings)
        if self._findings:
            choices.highlighted = min(at, len(self._findings) - 1)
            choices.focus()
        self._explain()

    def _explain(self) -> None:
        finding = self._current()
        if finding is None:
            text = Content.assemble((f"{SIGNS['ready']} ", "$success"), "Nothing is wrong with this server.")
        else:
            command = next((fix.command for fix in finding.fixes if fix.command), None)
            mend = [Content.assemble(("→ ", "bold $primary"), plain_line(command))] if command else []
            text = Content("\n").join([*(Content(plain_line(line)) for line in finding.why.splitlines()), *mend])
        self.query_one("#why", Static).update(text)
