"""Step 3: the trainer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.content import Content
from textual.message import Message
from textual.widgets import DataTable, Static

from kerneltui.advice.data import Fit, fits
from kerneltui.advice.recommend import recommend_trainer
from kerneltui.errors import KerneltuiError
from kerneltui.facts.dataset import DatasetFacts, read_dataset
from kerneltui.tui.steps.step import Step, WizardState
from kerneltui.tui.widgets.plan_card import plan_values
from kerneltui.tui.widgets.tables import show_rows
from kerneltui.tui.widgets.verdicts import verdict_cell

_HEADINGS = ("", "trainer", "what it does", "your data")
_WHAT = {
    "sft": "learns to answer as the examples do",
    "dpo": "learns which of two answers is better",
    "kto": "learns from answers marked good or bad",
    "reward": "learns to score answers, for another trainer",
    "grpo": "tries answers and learns from their reward",
    "rloo": "as GRPO, each answer against the others",
    "distillation": "learns to answer as a larger model does",
}
# The options of the others are listed in full, but not yet grouped and explained.
_COMPLETE = ("sft", "dpo")


class TrainerStep(Step):
    """The trainers of the installed TRL, those that the data fits first."""

    NAME = "Trainer"
    PURPOSE = "Choose how to train. Those that your data fits come first; the others say what the data lacks."

    @dataclass
    class DataRead(Message):
        """The data's first rows were read, or not."""

        facts: DatasetFacts | None

    def __init__(self) -> None:
        super().__init__(id="step-trainer")
        self._key: str | None = None
        self._facts: DatasetFacts | None = None
        self._trainers: list[str] = []
        self._state: WizardState | None = None

    def compose(self) -> ComposeResult:
        """Lay out the table over the reason."""
        table: DataTable[Any] = DataTable(id="trainers", cursor_type="row")
        yield table
        yield Static("", id="trainer-why", classes="why")

    def open(self) -> None:
        """Focus the table."""
        self.query_one("#trainers").focus()

    def show(self, state: WizardState) -> None:
        """Show the trainers; read the data when it is another."""
        self._state = state
        if state.server is None or state.server.libraries is None:
            self._say(state.busy or state.error or "")
            return
        values = plan_values(state)
        key = str((values.get("datasets"), values.get("dataset_name")))
        if key != self._key and self.active:
            self._key, self._facts = key, None
            self.read({**values}, Path(state.plan.cwd))
        self._show_rows()

    @work(thread=True, exclusive=True, group="data-format", description="reading the data's format")
    def read(self, values: dict[str, Any], cwd: Path) -> None:
        """Read the data's format."""
        try:
            facts = read_dataset(self.session.asker, {**values, "model_name_or_path": None}, cwd, "sft", rows=1)
        except KerneltuiError:
            facts = None  # the step before says what is wrong with the data
        self.post_message(self.DataRead(facts))

    @on(DataRead)
    def _data_read(self, message: DataRead) -> None:
        self._facts = message.facts
        self._trainers = []
        self._show_rows()

    def on_data_table_row_selected(self) -> None:
        """Enter takes the row."""
        self.take()

    def take(self) -> None:
        """Take the trainer under the cursor."""
        table = self.query_one("#trainers", DataTable)
        if 0 <= table.cursor_row < len(self._trainers):
            self.post_message(self.Chosen(trainer=self._trainers[table.cursor_row]))

    def _show_rows(self) -> None:
        state = self._state
        if state is None or state.server is None or state.server.libraries is None:
            return
        verdicts = {name: self._fit(name) for name in state.server.libraries.trainers}
        if not self._trainers:
            order = {True: 0, None: 1, False: 2}
            known = list(_WHAT)
            rank = {name: known.index(name) if name in known else len(known) for name in verdicts}
            self._trainers = sorted(verdicts, key=lambda name: (order[verdicts[name].ok], rank[name]))
            recommendation = recommend_trainer(self._facts, list(verdicts)) if self._facts else None
            wanted = state.plan.trainer if not recommendation else str(recommendation.trainer)
            self._say(recommendation.why if recommendation else "reading the data's format …")
            self._fill(verdicts)
            if wanted in self._trainers:
                self.query_one("#trainers", DataTable).move_cursor(row=self._trainers.index(wanted), animate=False)
        else:
            self._fill(verdicts)

    def _fill(self, verdicts: dict[str, Fit]) -> None:
        rows = {name: self._row(name, verdicts[name]) for name in self._trainers}
        show_rows(self.query_one("#trainers", DataTable), _HEADINGS, rows)

    def _fit(self, name: str) -> Fit:
        return fits(self._facts, name) if self._facts else Fit(ok=None, reason="")

    def _row(self, name: str, fit: Fit) -> tuple[str | Text | None, ...]:
        kind = {True: "ready", None: "unknown", False: "refused"}[fit.ok]
        style = "dim" if fit.ok is False else ""
        lacks = "" if name in _COMPLETE or fit.ok is False else "; its options are not grouped yet"
        return (
            verdict_cell(kind),
            Text(name, style=style or "bold"),
            Text(_WHAT.get(name, ""), style=style),
            Text(f"{fit.reason}{lacks}", style=style),
        )

    def _say(self, text: str) -> None:
        self.query_one("#trainer-why", Static).update(Content(text))
