"""Finding out about a plan behind the screen: the server, what TRL and the Hub say, the data, and the judgement."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
from textual import on, work
from textual.message import Message

from kerneltui.advice.assessment import Assessment
from kerneltui.advice.finding import Finding
from kerneltui.advice.recommend import recommend_model_and_data
from kerneltui.advice.recommendation import Recommendation
from kerneltui.advice.situation import Situation
from kerneltui.assess import assess, find_out, with_preflight
from kerneltui.errors import KerneltuiError
from kerneltui.facts.proof import Proof
from kerneltui.facts.server import Server
from kerneltui.plan.plan import Plan
from kerneltui.tui.pauses import set_aside
from kerneltui.tui.screens.base import BaseScreen
from kerneltui.tui.steps.step import WizardState
from kerneltui.tui.widgets.findings import changed_ids


class JudgingScreen(BaseScreen[None]):
    """Judges the plan of its `state` at every change; `show_state` is called when more is known.

    The plan is the only state: every answer of the person is a key of its configuration.
    """

    @dataclass
    class ServerRead(Message):
        """The server report is there, and what was used last, to start from."""

        server: Server
        start: Recommendation

    @dataclass
    class Assessed(Message):
        """A plan was judged; `whole` is whether its data was looked at."""

        plan: Plan
        situation: Situation
        assessment: Assessment
        whole: bool = True

    @dataclass
    class NotJudged(Message):
        """Something could not be found out about a plan; `error` says what to do."""

        plan: Plan
        error: KerneltuiError

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.state = WizardState(plan=plan, busy="reading the server")
        self.changed: frozenset[str] = frozenset()
        """The findings that the last change of the plan brought."""
        self._before: tuple[Finding, ...] = ()
        self._tried: tuple[Plan, Proof] | None = None

    def show_state(self) -> None:
        """Show the state."""

    def set_state(self, **changes: Any) -> None:
        """Change parts of the state and show it."""
        self.state = replace(self.state, **changes)
        self.show_state()

    def use_plan(self, plan: Plan) -> None:
        """Judge this plan from now on, when it is another."""
        if plan != self.state.plan:
            self._before = self.state.assessment.findings if self.state.assessment else ()
            self._tried = None
            self.set_state(plan=plan, busy="asking TRL about the configuration")
            self.judge()

    def ask_again(self) -> None:
        """Ask again what could not be found out, and look at the data anew."""
        if self.state.server is None:
            self.read_server(again=True)
        else:
            self.kerneltui.session.forget_data()
            self.set_state(busy="asking again", error=None)
            self.judge()

    @work(thread=True, exclusive=True, group="server", description="reading the server")
    def read_server(self, again: bool = False) -> None:
        """Read the server report, while the asker imports the training packages."""
        session, plan = self.kerneltui.session, self.state.plan
        session.use(plan.environment)
        session.asker.prepare()
        start = recommend_model_and_data(*session.recent(), Path(plan.cwd))
        try:
            server = session.server(again=again, on_progress=self.tell)
        except KerneltuiError as error:
            self.post_message(self.NotJudged(plan, error))
            return
        self.post_message(self.ServerRead(server, start))

    @work(thread=True, exclusive=True, group="judge", description="judging the plan")
    def judge(self) -> None:
        """Find out what the plan needs and judge it."""
        plan, server, session = self.state.plan, self.state.server, self.kerneltui.session
        if server is None:
            return
        session.use(plan.environment)
        elsewhere = session.recorded is not None
        try:
            situation = find_out(
                plan, server, session.asker, session.hub, on_progress=self.tell, elsewhere=elsewhere, data=False
            )
        except KerneltuiError as error:
            self.post_message(self.NotJudged(plan, error))
            return
        self._post_judged(plan, *session.known_data(situation))

    @work(thread=True, exclusive=True, group="data", description="reading the first rows of the data")
    def read_data(self, plan: Plan, situation: Situation) -> None:
        """Look at the data of a plan that was judged without it, and judge it with what is seen."""
        self._post_judged(plan, self.kerneltui.session.with_data(situation), True)

    def use_proof(self, plan: Plan, proof: Proof) -> None:
        """Judge this plan with what came of trying it, as long as it stays as it is."""
        situation, assessment = self.state.situation, self.state.assessment
        if plan == self.state.plan and situation is not None and assessment is not None:
            self._tried, self._before = (plan, proof), assessment.findings
            self.judge_tried(plan, situation)

    @work(thread=True, exclusive=True, group="tried", description="judging what was tried")
    def judge_tried(self, plan: Plan, situation: Situation) -> None:
        """Judge a plan with what came of trying it, and with what is known of its data by now."""
        self._post_judged(plan, self.kerneltui.session.known_data(situation)[0], True)

    def _post_judged(self, plan: Plan, situation: Situation, whole: bool) -> None:
        if self._tried and self._tried[0] == plan:
            rehearsal = self._tried[1].rehearsal
            situation = msgspec.structs.replace(with_preflight(situation), rehearsal=rehearsal)
        self.post_message(self.Assessed(plan, situation, assess(situation), whole))

    @on(ServerRead)
    def _server_read(self, message: ServerRead) -> None:
        self.set_state(
            server=message.server, start=message.start, busy="asking TRL about the configuration", error=None
        )
        self.judge()

    @on(Assessed)
    def _assessed(self, message: Assessed) -> None:
        if message.plan != self.state.plan:
            return
        set_aside()
        self.changed = changed_ids(self._before, message.assessment.findings)
        self.set_state(situation=message.situation, assessment=message.assessment, error=None, busy=None)
        if message.whole:
            self.kerneltui.session.prepare()
        else:
            self.read_data(message.plan, message.situation)

    @on(NotJudged)
    def _not_judged(self, message: NotJudged) -> None:
        if message.plan == self.state.plan:
            self.set_state(error=str(message.error), busy=None)

    @on(BaseScreen.Progress)
    def _progress(self, message: BaseScreen.Progress) -> None:
        if self.state.busy is not None:
            self.set_state(busy=message.text)
