"""Step 3: the trainer."""

from __future__ import annotations

from typing import Any

from rich.text import Text
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import DataTable

from kerneltui.advice.about_trainers import ABOUT, good_curves
from kerneltui.advice.experimental import missing_here
from kerneltui.advice.fit import Fit, fits
from kerneltui.advice.recommend import Recommendation, recommend_trainer
from kerneltui.facts.dataset import DatasetFacts, dataset_name
from kerneltui.facts.server import Libraries, Server
from kerneltui.tui.steps.step import Step, WizardState
from kerneltui.tui.widgets.lines import Note
from kerneltui.tui.widgets.plan_card import plan_values
from kerneltui.tui.widgets.tables import show_rows
from kerneltui.tui.widgets.verdicts import verdict_cell

_HEADINGS = ("", "trainer", "what it does", "your data")
_EXPERIMENTAL = "of trl.experimental: may change with any release"


class TrainerStep(Step):
    """The trainers of the installed TRL, those that the data fits first."""

    NAME = "Trainer"
    PURPOSE = "Choose how to train. Those that your data fits come first; the others say what the data lacks."

    def __init__(self) -> None:
        super().__init__(id="step-trainer")
        self._facts: DatasetFacts | None = None
        self._trainers: list[str] = []
        self._stable: list[str] = []
        self._server: Server | None = None
        self._recommended: Recommendation | None = None
        self._unread = ""
        self._moved = False
        self.taken = False  # whether the plan's trainer is the person's choice

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
        facts, self._server = _data_of(state), state.server
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
            self.taken = True
            self.post_message(self.Chosen(trainer=self._trainers[table.cursor_row]))

    def _order(self, libraries: Libraries, state: WizardState) -> None:
        """Put those first that can read the data, and the cursor on what was chosen, else on what is recommended."""
        self._stable, trainers = list(libraries.trainers), [*libraries.trainers, *libraries.experimental]
        recommended = self._recommended = recommend_trainer(self._facts, self._stable) if self._facts else None
        self._unread = "" if recommended else _unread(state)
        self._say(recommended.why if recommended else self._unread)
        if self._trainers and self._moved:
            return
        order, known = {True: 0, None: 1, False: 2}, list(ABOUT)
        rank = {name: known.index(name) if name in known else len(known) for name in trainers}
        self._trainers = sorted(trainers, key=lambda name: (order[self._fit(name).ok], rank[name]))
        own = self.taken or state.plan.config_path is not None or recommended is None
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
        experimental = "" if name in self._stable else "experimental: "
        return (
            verdict_cell(kind),
            Text(name, style=style or "bold"),
            Text(f"{experimental}{ABOUT[name].does}" if name in ABOUT else _EXPERIMENTAL, style=style),
            Text(fit.reason, style=style),
        )

    def _explain(self, name: str) -> None:
        recommended, about = self._recommended, ABOUT.get(name)
        why = self._fit(name).reason or self._unread
        if recommended and recommended.trainer == name:
            lines = [f"Recommended: {recommended.why}"]
        else:
            lines = [f"{name} {about.does if about else f'is {_EXPERIMENTAL}'}. {why}".strip()]
        if about and about.needs:
            lines.append(f"It needs {about.needs}.")
        if self._server and (missing := missing_here(name, self._server)):
            lines.append(f"▲ {missing}")
        if about:
            lines.append(f"A good run: {good_curves(name)}.")
        self._say("\n".join(lines))

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
