"""The wizard: seven steps over one plan, with the findings and the plan always in view."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec
from textual import on, work
from textual.app import ComposeResult
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.screen import Screen
from textual.widgets import ContentSwitcher, Static

from kerneltui.advice.assessment import Assessment
from kerneltui.advice.finding import Finding
from kerneltui.advice.situation import Situation
from kerneltui.assess import assess, find_out
from kerneltui.errors import KerneltuiError
from kerneltui.facts.server import Server
from kerneltui.plan.edit import edit_config
from kerneltui.plan.plan import Plan
from kerneltui.text import plain_line
from kerneltui.tui.keys import CHECK, EVERYWHERE, WIZARD, Key, bindings
from kerneltui.tui.screens.dialog import Dialog
from kerneltui.tui.steps.check import CheckStep
from kerneltui.tui.steps.kernel import KernelStep
from kerneltui.tui.steps.model import ModelStep
from kerneltui.tui.steps.options import OptionsStep
from kerneltui.tui.steps.revision import RevisionStep
from kerneltui.tui.steps.server import ServerStep
from kerneltui.tui.steps.step import Step, WizardState
from kerneltui.tui.steps.trainer import TrainerStep
from kerneltui.tui.widgets.findings import changed_ids, finding_detail, findings_content, findings_title
from kerneltui.tui.widgets.key_footer import KeyFooter
from kerneltui.tui.widgets.plan_card import plan_card

if TYPE_CHECKING:
    from kerneltui.tui.app import KerneltuiApp

_START = "# Made by kerneltui; `trl {trainer} --config THIS_FILE` reads it.\nreport_to: none\n"
_STEPS = (ServerStep, ModelStep, TrainerStep, KernelStep, RevisionStep, OptionsStep, CheckStep)


class WizardScreen(Screen[None]):
    """Seven steps. The plan is the only state: every answer is a key of its configuration, so Back loses none."""

    BINDINGS = bindings(WIZARD, CHECK)
    CSS_PATH = "wizard.tcss"

    @dataclass
    class ServerRead(Message):
        """The server report is there."""

        server: Server

    @dataclass
    class Assessed(Message):
        """A plan was judged."""

        plan: Plan
        situation: Situation
        assessment: Assessment

    @dataclass
    class Failed(Message):
        """Something could not be found out; `error` says what to do."""

        error: KerneltuiError

    @dataclass
    class Progress(Message):
        """What is being found out now."""

        text: str

        def can_replace(self, message: Message) -> bool:
            """A newer word replaces one that was not yet shown."""
            return isinstance(message, WizardScreen.Progress)

    def __init__(self, plan: Plan | None = None) -> None:
        super().__init__()
        self._opened = plan is not None
        start = plan or Plan(trainer="sft", cwd=str(Path.cwd()), config=_START.format(trainer="sft"))
        self.state = WizardState(plan=start, busy="reading the server")
        self.at = 0
        self._changed: frozenset[str] = frozenset()

    @property
    def kerneltui(self) -> KerneltuiApp:
        """The app, with its own type."""
        return cast("KerneltuiApp", self.app)

    @property
    def step(self) -> Step:
        """The step in front."""
        return self._steps[self.at]

    @property
    def KEYS(self) -> tuple[Key, ...]:  # noqa: N802 - the name that the help screen looks for
        """The keys of the step in front and of the wizard."""
        return (*self.step.KEYS, *WIZARD)

    @property
    def PURPOSE(self) -> str:  # noqa: N802 - the name that the help screen looks for
        """Return what this step is for."""
        return self.step.PURPOSE

    def compose(self) -> ComposeResult:
        """Lay out the steps over the findings and the plan."""
        self._steps = [kind() for kind in _STEPS]
        yield Static("", id="steps")
        with ContentSwitcher(id="step", classes="pane", initial=self._steps[0].id):
            yield from self._steps
        with Horizontal(id="below"):
            with VerticalScroll(id="findings", classes="pane", can_focus=False):
                yield Static("", id="findings-text")
            with VerticalScroll(id="plan", classes="pane", can_focus=False) as plan:
                plan.border_title = "Plan"
                yield Static("", id="plan-text")
        yield KeyFooter(id="keys")

    def on_mount(self) -> None:
        """Show what is at hand; read the server and judge the plan behind the screen."""
        if self._opened:
            self.at = len(self._steps) - 1
        self.go(self.at)
        self.read_server()

    # Going through the steps

    def go(self, at: int) -> None:
        """Open a step."""
        self.at = max(0, min(at, len(self._steps) - 1))
        for number, step in enumerate(self._steps):
            step.active = number == self.at
        self.query_one("#step", ContentSwitcher).current = self.step.id
        self._show()
        self.call_after_refresh(self.step.open)
        self.query_one(KeyFooter).show((*self.step.KEYS, *WIZARD, *EVERYWHERE))

    def action_take(self) -> None:
        """Take what is marked."""
        self.step.take()

    def action_next(self) -> None:
        """Go on without changing anything."""
        self.go(self.at + 1)

    def action_back(self) -> None:
        """Go one step back, from the first one home."""
        if self.at == 0:
            self.action_home()
        else:
            self.go(self.at - 1)

    def action_home(self) -> None:
        """Go home."""
        self.dismiss()

    def action_retry(self) -> None:
        """Ask again what could not be found out."""
        if self.state.server is None:
            self.read_server(again=True)
        else:
            self._set(busy="asking again", error=None)
            self.judge()

    @on(Step.Chosen)
    def _chosen(self, message: Step.Chosen) -> None:
        plan = self.state.plan
        if message.trainer is not None:
            plan = msgspec.structs.replace(plan, trainer=message.trainer)
        if message.launch:
            plan = msgspec.structs.replace(plan, launch=msgspec.structs.replace(plan.launch, **message.launch))
        self.set_plan(plan, message.values, message.remove)
        if message.onward:
            self.go(self.at + 1)

    def set_plan(self, plan: Plan, values: Mapping[str, Any], remove: tuple[str, ...] = ()) -> None:
        """Change the plan, and judge it when it is another."""
        config = edit_config(plan.config or "", values, remove)
        plan = msgspec.structs.replace(plan, config=config)
        if plan != self.state.plan:
            self._set(plan=plan, busy="asking TRL about the configuration")
            self.judge()

    def action_fix(self) -> None:
        """Apply the first fix of the first finding that has one."""
        for finding in self.state.assessment.findings if self.state.assessment else ():
            fix = next((fix for fix in finding.fixes if fix.changes or fix.nulls), None)
            if fix is not None:
                values = {name: value for name, value in fix.changes.items() if value is not None}
                values |= dict.fromkeys(fix.nulls)
                gone = tuple(name for name, value in fix.changes.items() if value is None)
                self.set_plan(self.state.plan, values, gone)
                self.notify(f"{fix.label}", title="Applied", markup=False)
                return
        self.notify("No finding has a fix that a key can apply.", markup=False)

    def action_details(self) -> None:
        """Show every finding with why, source and fixes."""
        findings = self.state.assessment.findings if self.state.assessment else ()
        if findings:
            self.app.push_screen(Dialog("Findings", Content("\n\n").join(finding_detail(it) for it in findings)))
        else:
            self.notify(self.state.error or "Nothing was found that would fail.", markup=False)

    def action_launch(self) -> None:
        """Start the run, from the last step."""
        if isinstance(self.step, CheckStep):
            self.step.launch()

    def action_export(self) -> None:
        """Write the plan for other hands, from the last step."""
        if isinstance(self.step, CheckStep):
            self.step.export()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Launch and export belong to the last step."""
        return action not in ("launch", "export") or isinstance(self.step, CheckStep)

    # Finding out, behind the screen

    @work(thread=True, exclusive=True, group="server", description="reading the server")
    def read_server(self, again: bool = False) -> None:
        """Read the server report, while the asker imports the training packages."""
        session = self.kerneltui.session
        session.asker.prepare()
        try:
            server = session.server(again=again, on_progress=self._tell)
        except KerneltuiError as error:
            self.post_message(self.Failed(error))
            return
        self.post_message(self.ServerRead(server))

    @work(thread=True, exclusive=True, group="judge", description="judging the plan")
    def judge(self) -> None:
        """Find out what the plan needs and judge it."""
        plan, server, session = self.state.plan, self.state.server, self.kerneltui.session
        if server is None:
            return
        try:
            situation = find_out(
                plan,
                server,
                session.asker,
                session.hub,
                on_progress=self._tell,
                elsewhere=session.recorded is not None,
            )
        except KerneltuiError as error:
            self.post_message(self.Failed(error))
            return
        self.post_message(self.Assessed(plan, situation, assess(situation)))

    def _tell(self, text: str) -> None:
        self.post_message(self.Progress(text))

    @on(ServerRead)
    def _server_read(self, message: ServerRead) -> None:
        self._set(server=message.server, busy="asking TRL about the configuration", error=None)
        self.judge()

    @on(Assessed)
    def _assessed(self, message: Assessed) -> None:
        if message.plan == self.state.plan:
            before: tuple[Finding, ...] = self.state.assessment.findings if self.state.assessment else ()
            self._changed = changed_ids(before, message.assessment.findings)
            self._set(situation=message.situation, assessment=message.assessment, error=None, busy=None)

    @on(Failed)
    def _failed(self, message: Failed) -> None:
        self._set(error=str(message.error), busy=None)

    @on(Progress)
    def _progress(self, message: Progress) -> None:
        if self.state.busy is not None:
            self._set(busy=message.text)

    # Showing

    def _set(self, **changes: Any) -> None:
        self.state = replace(self.state, **changes)
        self._show()

    def _show(self) -> None:
        state = self.state
        self.query_one("#steps", Static).update(self._steps_line())
        pane = self.query_one("#step")
        pane.border_title = self._title()
        pane.border_subtitle = f"{state.busy} …" if state.busy else ""
        self.step.show(state)
        findings = self._findings()
        box = self.query_one("#findings")
        box.border_title = "Findings"
        box.border_subtitle = findings_title(findings, state)
        self.query_one("#findings-text", Static).update(findings_content(findings, state, self._changed))
        self.query_one("#plan-text", Static).update(plan_card(state))

    def _title(self) -> str:
        """Return the name of the step; for a recorded server also whose report it is."""
        recorded = self.kerneltui.recorded
        whose = f" · for {recorded.hostname}, by its report of {recorded.time[:10]}" if recorded else ""
        return Content(plain_line(f"{self.step.NAME}{whose}")).markup

    def _findings(self) -> tuple[Finding, ...]:
        """Return the findings; that something is missing is not said before the step that asks for it."""
        found = self.state.assessment.findings if self.state.assessment else ()
        early = self.at <= _STEPS.index(ModelStep)
        return tuple(finding for finding in found if not (early and finding.id.startswith("trainer.missing.")))

    def _steps_line(self) -> Content:
        parts = []
        for number, step in enumerate(self._steps):
            style = "bold $primary" if number == self.at else "$foreground" if number < self.at else "$secondary"
            mark = " ✔" if number < self.at else ""
            parts.append(Content.styled(f"{number + 1} {step.NAME}{mark}", style))
        return Content("   ").join([Content.styled("New run", "bold"), *parts])
