"""The wizard: seven steps over one plan, with the findings and the plan always in view."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content

from kerneltui.advice.finding import SIGNS, Finding
from kerneltui.advice.show import fix_text
from kerneltui.facts.copying import Copied
from kerneltui.facts.mapping import ColumnMapping
from kerneltui.plan.edit import edit_config, split_changes
from kerneltui.plan.plan import Plan
from kerneltui.text import plain_line
from kerneltui.tui.keys import CHECK, WIZARD, Key, bindings
from kerneltui.tui.pauses import set_aside
from kerneltui.tui.screens.copy_data import CopyData
from kerneltui.tui.screens.dialog import Dialog
from kerneltui.tui.screens.judging import JudgingScreen
from kerneltui.tui.steps.check import CheckStep
from kerneltui.tui.steps.kernel import KernelStep
from kerneltui.tui.steps.model import ModelStep
from kerneltui.tui.steps.options import OptionsStep
from kerneltui.tui.steps.revision import RevisionStep
from kerneltui.tui.steps.server import ServerStep
from kerneltui.tui.steps.step import Step
from kerneltui.tui.steps.trainer import TrainerStep
from kerneltui.tui.widgets.findings import (
    finding_detail,
    findings_content,
    findings_title,
    in_order,
    next_fix,
)
from kerneltui.tui.widgets.key_footer import KeyFooter
from kerneltui.tui.widgets.lines import Note
from kerneltui.tui.widgets.pane import ScrollPane, SwitchPane
from kerneltui.tui.widgets.plan_card import plan_card, plan_line
from kerneltui.tui.widgets.proof_note import ProofNote

_START = "# Made by kerneltui; `trl {trainer} --config THIS_FILE` reads it.\nreport_to: none\n"
# From this width on, in cells, the steps' names come with their numbers.
_NUMBERED = 108
_STEPS = (ServerStep, ModelStep, TrainerStep, KernelStep, RevisionStep, OptionsStep, CheckStep)


class WizardScreen(JudgingScreen):
    """Seven steps. Every answer is a key of the plan's configuration, so Back loses none."""

    BINDINGS = bindings(WIZARD, CHECK)
    CSS_PATH = "wizard.tcss"

    def __init__(self, plan: Plan | None = None, at: int | None = None) -> None:
        start = plan or Plan(trainer="sft", cwd=str(Path.cwd()), config=_START.format(trainer="sft"))
        super().__init__(start)
        self._first = at if at is not None else len(_STEPS) - 1 if plan is not None else 0
        self.at = 0

    @property
    def step(self) -> Step:
        """The step in front."""
        return self._steps[self.at]

    @property
    def KEYS(self) -> tuple[Key, ...]:  # noqa: N802 - the name that the help screen looks for
        """The keys of the step in front and of the wizard."""
        enter = replace(WIZARD[0], label=self.step.ENTER)
        return (*self.step.KEYS, enter, *WIZARD[1:])

    @property
    def PURPOSE(self) -> str:  # noqa: N802 - the name that the help screen looks for
        """Return what this step is for."""
        return self.step.PURPOSE

    def compose(self) -> ComposeResult:
        """Lay out the steps over the findings and the plan."""
        self._steps = [kind() for kind in _STEPS]
        for step in self._steps[: self._first]:  # what comes before the step to begin with was answered
            if isinstance(step, TrainerStep):
                step.taken = True
        yield Note("", id="steps")
        with SwitchPane(id="step", initial=self._steps[0].id):
            yield from self._steps
        yield Note("", id="plan-line")
        with Horizontal(id="below"):
            with ScrollPane(id="findings", can_focus=False):
                yield Note("", id="findings-text")
            with ScrollPane(id="plan", can_focus=False) as plan:
                plan.entitle("Plan")
                yield Note("", id="plan-text")
        yield KeyFooter(id="keys")

    def on_mount(self) -> None:
        """Show what is at hand; read the server and judge the plan behind the screen."""
        self.go(self._first)
        self.read_server()
        self.call_after_refresh(set_aside)

    # Going through the steps

    def go(self, at: int) -> None:
        """Open a step."""
        self.at = max(0, min(at, len(self._steps) - 1))
        for number, step in enumerate(self._steps):
            step.active = number == self.at
        self.query_one("#step", SwitchPane).current = self.step.id
        self.show_state()
        self.call_after_refresh(self.step.open)
        self._show_keys()

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
        """Go home; the plan waits there."""
        self.kerneltui.draft = (self.state.plan, self.at)
        self.dismiss()

    def action_anew(self) -> None:
        """Begin a new plan."""
        self.app.switch_screen(WizardScreen())

    def action_retry(self) -> None:
        """Ask again what could not be found out."""
        self.ask_again()

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

    @on(ProofNote.Made)
    def _proved(self, message: ProofNote.Made) -> None:
        if message.whole:
            self.use_proof(message.plan, message.proof)

    def set_plan(self, plan: Plan, values: Mapping[str, Any], remove: tuple[str, ...] = ()) -> None:
        """Change the plan, and judge it when it is another."""
        config = edit_config(plan.config or "", values, remove)
        self.use_plan(msgspec.structs.replace(plan, config=config))

    def action_fix(self) -> None:
        """Apply the fix at which the findings show this key."""
        fix = next_fix(in_order(self._findings(), self.changed))
        if fix is None:
            self.notify("No finding has a fix that a key can apply.", markup=False)
            return
        if fix.mapping is not None:
            self._copy_data(fix.mapping)
            return
        values, gone = split_changes(fix.changes)
        values |= dict.fromkeys(fix.nulls)
        self.set_plan(self.state.plan, values, gone)
        self.notify(f"{plain_line(fix.label)}: {fix_text(fix)}", title="Applied", markup=False)

    def _copy_data(self, mapping: ColumnMapping) -> None:
        """Write a copy of the data, and let the plan read that."""
        plan, situation = self.state.plan, self.state.situation
        if situation is None:
            return

        def take(copied: Copied | None) -> None:
            if copied is not None and self.state.plan == plan:
                self.set_plan(plan, *split_changes(copied.changes))
                self.notify(f"{copied.rows:,} rows are in {copied.folder}.", title="Applied", markup=False)

        self.app.push_screen(CopyData(situation.settings.values, Path(plan.cwd), plan.trainer, mapping), take)

    def action_details(self) -> None:
        """Show every finding with why, source and fixes."""
        findings = self.state.assessment.findings if self.state.assessment else ()
        if findings:
            shown = in_order(findings, self.changed)
            self.app.push_screen(Dialog("Findings", Content("\n\n").join(map(finding_detail, shown))))
        else:
            self.notify(self.state.error or "Nothing was found that would fail.", markup=False)

    def action_launch(self) -> None:
        """Start the run, from the last step."""
        if isinstance(self.step, CheckStep):
            self.step.launch()

    def action_prove(self) -> None:
        """Try the plan, from the last step."""
        if isinstance(self.step, CheckStep):
            self.step.prove()

    def action_export(self) -> None:
        """Write the plan for other hands, from the last step."""
        if isinstance(self.step, CheckStep):
            self.step.export()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Launch, proof and export belong to the last step."""
        return action not in ("launch", "prove", "export") or isinstance(self.step, CheckStep)

    # Showing

    def show_state(self) -> None:
        """Show the step in front, the findings and the plan."""
        state = self.state
        self.query_one("#steps", Note).update(self._steps_line())
        pane = self.query_one("#step", SwitchPane)
        pane.entitle(self._title())
        pane.wait(state.busy)
        self.step.show(state)
        findings = self._findings()
        self.query_one("#findings", ScrollPane).entitle("Findings", findings_title(findings, state))
        self.query_one("#findings-text", Note).update(findings_content(findings, state, self.changed))
        self.query_one("#plan-text", Note).update(plan_card(state))
        self.query_one("#plan-line", Note).update(plan_line(state))

    @on(events.DescendantFocus)
    @on(events.DescendantBlur)
    def _show_keys(self) -> None:
        """Show the keys that work where the focus is."""
        self.query_one(KeyFooter).show(self.KEYS, typing=self.step.typing)

    def on_resize(self) -> None:
        """Fit the steps to the new width."""
        for line in self.query("#steps").results(Note):  # not there yet at the first of all
            line.update(self._steps_line())

    def _title(self) -> str:
        """Return the name of the step; for a recorded server also whose report it is."""
        recorded = self.kerneltui.recorded
        whose = f" · for {recorded.hostname}, by its report of {recorded.time[:10]}" if recorded else ""
        return plain_line(f"{self.step.NAME}{whose}")

    def _findings(self) -> tuple[Finding, ...]:
        """Return the findings; that something is missing is not said before the step that asks for it."""
        found = self.state.assessment.findings if self.state.assessment else ()
        early = self.at <= _STEPS.index(ModelStep)
        return tuple(finding for finding in found if not (early and finding.id.startswith("trainer.missing.")))

    def _steps_line(self) -> Content:
        """Return the names of the steps: passed ones with a sign, and numbered where there is room."""
        wide = self.size.width >= _NUMBERED
        parts = [Content.styled("New run", "bold")] if wide else []
        for number, step in enumerate(self._steps):
            style = "bold $primary" if number == self.at else "$foreground" if number < self.at else "$secondary"
            words = [str(number + 1) if wide else "", step.NAME, SIGNS["ready"] if number < self.at else ""]
            parts.append(Content.styled(" ".join(filter(None, words)), style))
        return Content("   " if wide else "  ").join(parts)
