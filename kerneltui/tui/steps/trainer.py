"""Step 3: the trainer."""

from __future__ import annotations

from typing import Any

from rich.text import Text
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import DataTable

from kerneltui.advice.data import Fit, fits
from kerneltui.advice.recommend import Recommendation, recommend_trainer
from kerneltui.facts.dataset import DatasetFacts, dataset_name
from kerneltui.facts.server import Libraries
from kerneltui.tui.steps.step import Step, WizardState
from kerneltui.tui.widgets.lines import Note
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
_EXPERIMENTAL = "of trl.experimental: may change with any release"
# The options of the others are listed in full, but not yet grouped and explained.
_COMPLETE = ("sft", "dpo")


class TrainerStep(Step):
    """The trainers of the installed TRL, those that the data fits first."""

    NAME = "Trainer"
    PURPOSE = "Choose how to train. Those that your data fits come first; the others say what the data lacks."

    def __init__(self) -> None:
        super().__init__(id="step-trainer")
        self._facts: DatasetFacts | None = None
        self._trainers: list[str] = []
        self._recommended: Recommendation | None = None
        self._unread = ""
        self._moved = False
        self._taken = False

    def compose(self) -> ComposeResult:
        """Lay out the table over the reason."""
        table: DataTable[Any] = DataTable(id="trainers", cursor_type="row")
        yield table
        yield Note("", id="trainer-why", classes="why")

    def open(self) -> None:
        """Focus the table."""
        self.query_one("#trainers").focus()

    def show(self, state: WizardState) -> None:
        """Show the trainers, those first that can read the data as soon as that is known."""
        if state.server is None or state.server.libraries is None:
            self._say(f"{state.busy} …" if state.busy else state.error or "")
            return
        facts = _data_of(state)
        if facts is None or self._facts is None or facts.columns != self._facts.columns:
            self._facts = facts
            self._order(state.server.libraries, state)
        self._show_rows()

    def on_key(self) -> None:
        """Once the person has moved, the rows keep their places."""
        self._moved = True

    def on_data_table_row_selected(self) -> None:
        """Enter takes the row."""
        self.take()

    def on_data_table_row_highlighted(self) -> None:
        """Say in full what stands in the row under the cursor, which a narrow terminal cuts."""
        table = self.query_one("#trainers", DataTable)
        if self._trainers and 0 <= table.cursor_row < len(self._trainers):
            self._explain(self._trainers[table.cursor_row])

    def take(self) -> None:
        """Take the trainer under the cursor."""
        table = self.query_one("#trainers", DataTable)
        if 0 <= table.cursor_row < len(self._trainers):
            self._taken = True
            self.post_message(self.Chosen(trainer=self._trainers[table.cursor_row]))

    def _order(self, libraries: Libraries, state: WizardState) -> None:
        """Put those first that can read the data, and the cursor on what was chosen, else on what is recommended."""
        stable, trainers = list(libraries.trainers), [*libraries.trainers, *libraries.experimental]
        recommended = self._recommended = recommend_trainer(self._facts, stable) if self._facts else None
        self._unread = "" if recommended else _unread(state)
        self._say(recommended.why if recommended else self._unread)
        if self._trainers and self._moved:
            return
        order, known = {True: 0, None: 1, False: 2}, list(_WHAT)
        rank = {name: known.index(name) if name in known else len(known) for name in trainers}
        self._trainers = sorted(trainers, key=lambda name: (order[self._fit(name).ok], rank[name]))
        own = self._taken or state.plan.config_path is not None or recommended is None
        wanted = state.plan.trainer if own else str(recommended and recommended.trainer)
        self._show_rows()
        if wanted in self._trainers:
            self.query_one("#trainers", DataTable).move_cursor(row=self._trainers.index(wanted), animate=False)

    def _show_rows(self) -> None:
        rows = {name: self._row(name, self._fit(name)) for name in self._trainers}
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
            Text(_WHAT.get(name, _EXPERIMENTAL), style=style),
            Text(f"{fit.reason}{lacks}", style=style),
        )

    def _explain(self, name: str) -> None:
        recommended = self._recommended
        if recommended and recommended.trainer == name:
            self._say(f"Recommended: {recommended.why}")
        else:
            self._say(f"{name} {_WHAT.get(name, f'is {_EXPERIMENTAL}')}: {self._fit(name).reason or self._unread}")

    def _say(self, text: str) -> None:
        self.query_one("#trainer-why", Note).update(Content(text))


def _data_of(state: WizardState) -> DatasetFacts | None:
    """Return the facts of the data that the plan names, None as long as they are not there."""
    situation, named = state.situation, dataset_name(plan_values(state))
    if situation is None or dataset_name(situation.settings.values) != named:
        return None
    return situation.data


def _unread(state: WizardState) -> str:
    """Return why the rows do not say yet whether the data fits."""
    if not dataset_name(plan_values(state)):
        return "No data is named yet; the step before asks for it."
    why = state.situation.unknown.get("data") if state.situation else None
    return f"The data was not read: {why.splitlines()[0]}" if why else "reading the first rows of the data …"
