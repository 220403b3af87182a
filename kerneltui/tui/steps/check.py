"""Step 7: what will really run, the command and the file; launch and export."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from textual import on, work
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.message import Message

from kerneltui.advice.assessment import Assessment
from kerneltui.advice.situation import Situation
from kerneltui.advice.tried import was_tried
from kerneltui.errors import KerneltuiError
from kerneltui.plan.forms import as_shell, as_yaml
from kerneltui.plan.script import as_python
from kerneltui.show import memory_table, will_run_lines
from kerneltui.text import plain, plain_line
from kerneltui.tui.keys import CHECK
from kerneltui.tui.steps.step import Step, WizardState
from kerneltui.tui.widgets.lines import Note
from kerneltui.tui.widgets.proof_note import ProofNote

if TYPE_CHECKING:
    from kerneltui.facts.proof import Proof
    from kerneltui.fetch import Part
    from kerneltui.runs.directory import RunDirectory


class CheckStep(Step):
    """Everything as it will be used; Enter or `l` launches when nothing blocks."""

    NAME = "Check"
    ENTER = "Launch"
    KEYS = CHECK
    PURPOSE = "What will really run, with file and command. p tries it here first; Enter or l starts it; e exports it."

    @dataclass
    class Fetching(Message):
        """What is being fetched before the run starts, and how far that is."""

        text: str

        def can_replace(self, message: Message) -> bool:
            """A newer word replaces one that was not yet shown."""
            return isinstance(message, CheckStep.Fetching)

    @dataclass
    class Launched(Message):
        """The run was started."""

        run: RunDirectory

    @dataclass
    class Failed(Message):
        """It could not be started."""

        error: KerneltuiError

    def __init__(self) -> None:
        super().__init__(id="step-check")
        self._state: WizardState | None = None
        self._launching = False

    def compose(self) -> ComposeResult:
        """Lay out one page to scroll."""
        with VerticalScroll(id="check-page"):
            yield Note("", id="check-verdict")
            yield ProofNote(id="check-proof")
            yield Note("", id="check-run")
            yield Note("", id="check-memory")
            yield Note("", id="check-command")
            yield Note("", id="check-yaml", classes="quiet")

    def open(self) -> None:
        """Focus the page, so that it scrolls."""
        self.query_one("#check-page").focus()

    def show(self, state: WizardState) -> None:
        """Show the plan as it will be used."""
        self._state = state
        self.query_one(ProofNote).follow(state.plan)
        self.query_one("#check-verdict", Note).update(_verdict(state))
        assessment = state.assessment
        lines = will_run_lines(assessment.will_run) if assessment else []
        self.query_one("#check-run", Note).update(Content("\n".join(["", *lines])))
        self.query_one("#check-memory", Note).update(_memory(state))
        self.query_one("#check-command", Note).update(
            Content.assemble(("\nThe same by hand\n", "bold"), plain(as_shell(state.plan)).strip())
        )
        self.query_one("#check-yaml", Note).update(
            Content.assemble(("\nThe configuration\n", "bold"), plain(state.plan.config or ""))
        )

    def take(self) -> None:
        """Enter launches."""
        self.launch()

    def launch(self) -> None:
        """Start the run, unless something blocks or is not known yet."""
        state = self._state
        if state is None or state.situation is None or state.assessment is None or state.busy:
            self.notify("Still finding out what this needs.", markup=False)
        elif state.server and self.session.recorded:
            self.notify("This is another machine's report: export the plan with e.", markup=False)
        elif blocks := [it.title for it in state.assessment.findings if it.severity == "block" and not was_tried(it)]:
            title = "✖ Something blocks: f applies a fix"
            self.notify("\n".join(blocks), title=title, severity="error", markup=False)
        elif self.query_one(ProofNote).busy:
            self.notify("It is being tried: wait for that, or end it with p.", markup=False)
        elif not self._launching:
            self._ask(state.situation, state.assessment)

    def _ask(self, situation: Situation, assessment: Assessment) -> None:
        """Launch, after a question where what was tried failed."""
        from kerneltui.tui.widgets.confirm import Confirm

        proof = self.query_one(ProofNote).proof_of(situation.plan)

        def answered(yes: bool | None) -> None:
            if yes:
                self._launching = True
                self._launch(situation, assessment, proof, forced=True)

        if assessment.blocked or (proof is not None and proof.failed):
            words = "What was tried of this plan failed on this machine. Its record will say that you insisted."
            self.app.push_screen(Confirm("Launch all the same?", words, "Launch", grave=True), answered)
            return
        self._launching = True
        self._launch(situation, assessment, proof, forced=False)

    def prove(self) -> None:
        """Try the plan behind the screen; while that goes on, end it."""
        state, note = self._state, self.query_one(ProofNote)
        if note.busy:
            note.stop()
        elif state is None or state.situation is None or state.busy:
            self.notify("Still finding out what this needs.", markup=False)
        elif state.situation.elsewhere:
            self.notify("This is another machine's report: nothing of it can be tried here.", markup=False)
        else:
            note.start(state.situation, self.session)

    @work(thread=True, exclusive=True, group="launch", description="launching the run")
    def _launch(self, situation: Situation, assessment: Assessment, proof: Proof | None, *, forced: bool) -> None:
        from kerneltui.fetch import for_all_ranks
        from kerneltui.runs.launch import launch

        try:
            if for_all_ranks(situation):
                situation = self._fetched(situation)
            run = launch(situation, assessment, self.session.runs, self.session.python, forced=forced, proof=proof)
        except KerneltuiError as error:
            self.post_message(self.Failed(error))
            return
        self.post_message(self.Launched(run))

    def _fetched(self, situation: Situation) -> Situation:
        """Fetch what the run needs once, so that its ranks do not download side by side; they start offline then."""
        from kerneltui.fetch import fetch, needed, offline, progress_words

        def tell(part: Part, come: int) -> None:
            self.post_message(self.Fetching(progress_words(part, come)))

        self.post_message(self.Fetching("asking the Hub what is to be fetched"))
        parts = needed(situation, self.session.asker, self.session.hub)
        found = fetch(parts, situation, self.session.python, on_progress=tell)
        return offline(situation, found)

    @on(Fetching)
    def _fetching(self, message: Fetching) -> None:
        if self._launching:
            self.query_one("#check-verdict", Note).update(Content.styled(f"{plain_line(message.text)} …", "$secondary"))

    @on(Launched)
    def _launched(self, message: Launched) -> None:
        from kerneltui.tui.screens.run import RunScreen

        self._launching = False
        self.kerneltui.draft = None
        self.notify(f"Find it again with: kerneltui watch {message.run.path}", title=message.run.name, markup=False)
        self.app.switch_screen(RunScreen(message.run))

    @on(Failed)
    def _failed(self, message: Failed) -> None:
        self._launching = False
        if self._state:
            self.show(self._state)
        self.kerneltui.show_error(message.error)

    def export(self) -> None:
        """Write the plan's other forms beside one another, and say where."""
        state = self._state
        if state is None or state.situation is None:
            self.notify("Still finding out what this needs.", markup=False)
            return
        folder = Path(state.plan.cwd)
        forms = {
            "kerneltui-export.yaml": as_yaml(state.plan, state.situation.settings),
            "kerneltui-export.py": as_python(state.plan, state.situation.settings),
        }
        try:
            for name, text in forms.items():
                (folder / name).write_text(text, encoding="utf-8")
        except OSError as error:
            self.notify(f"{folder}: {error.strerror}", title="✖ Not exported", severity="error", markup=False)
            return
        self.notify(
            f"trl {state.plan.trainer} --config {folder / 'kerneltui-export.yaml'}", title="Exported", markup=False
        )


def _memory(state: WizardState) -> Content:
    """Return the parts of what the plan takes of a card, nothing without a GPU."""
    situation, assessment = state.situation, state.assessment
    if situation is None or assessment is None or not situation.on_gpu:
        return Content("")
    if assessment.will_run.memory is None:
        why = situation.unknown.get("memory") or "being counted …"
        return Content.assemble(("\nMemory\n", "bold"), (plain(why), "$secondary"))
    return Content.assemble(("\nMemory\n", "bold"), "\n".join(memory_table(assessment.will_run.memory)))


def _verdict(state: WizardState) -> Content:
    if state.error:
        return Content.styled(f"✖ {plain(state.error)}", "$error")
    if state.assessment is None or state.busy:
        return Content.styled(f"{state.busy or 'judging'} …", "$secondary")
    if state.assessment.blocked:
        return Content.styled("✖ Something blocks: f applies the first fix, i says why.", "bold $error")
    elsewhere = state.situation is not None and state.situation.elsewhere
    onward = "e exports it for that machine." if elsewhere else "Enter launches."
    if any(it.severity == "warn" for it in state.assessment.findings):
        return Content.styled(f"▲ Ready, with care: i says what to look at. {onward}", "bold $warning")
    return Content.styled(f"✔ Ready. {onward}", "bold $success")
