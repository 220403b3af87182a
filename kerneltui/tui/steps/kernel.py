"""Step 4: the attention implementation, each with its verdict on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.content import Content
from textual.message import Message
from textual.widgets import DataTable
from textual.worker import get_current_worker

from kerneltui import demo
from kerneltui.advice.finding import SIGNS
from kerneltui.advice.recommend import Recommendation, recommend_attention
from kerneltui.advice.situation import Situation
from kerneltui.advice.verdict import Verdict, attention_candidates, verdict_of
from kerneltui.assess import with_attention
from kerneltui.errors import KerneltuiError
from kerneltui.facts.attention import AttentionChoice
from kerneltui.tui.steps.step import Step, WizardState
from kerneltui.tui.widgets.lines import Note
from kerneltui.tui.widgets.tables import show_rows
from kerneltui.tui.widgets.verdicts import verdict_words

if TYPE_CHECKING:
    from kerneltui.bench.here import Made

_HEADINGS = {"verdict": 0, "implementation": 0, "loads": 100, "why": 0}


class KernelStep(Step):
    """A row keeps its place while verdicts arrive; the recommended one is marked when all are known."""

    NAME = "Kernel"
    PURPOSE = (
        "Choose the attention. Native names are shown with what they really become; refused ones say why. A kernel of a"
        " publisher that the Hub does not call trusted needs t first: its code runs on this machine."
    )

    @dataclass
    class Found(Message):
        """What there is to choose from."""

        basis: tuple[Any, ...]
        names: list[str]

    @dataclass
    class Judged(Message):
        """One implementation was judged."""

        asked: str
        situation: Situation
        verdict: Verdict

    @dataclass
    class JudgedAll(Message):
        """Every implementation was judged."""

    @dataclass
    class Measured(Message):
        """The benchmarks that were made here."""

        made: tuple[Made, ...]

    def __init__(self) -> None:
        super().__init__(id="step-kernel")
        self._basis: tuple[Any, ...] | None = None
        self._names: list[str] = []
        self._judged: dict[str, tuple[Situation, Verdict]] = {}
        self._recommended: Recommendation | None = None
        self._made: tuple[Made, ...] = ()
        self._moved = False

    def compose(self) -> ComposeResult:
        """Lay out the table over the reason of the recommendation."""
        table: DataTable[Any] = DataTable(id="kernels", cursor_type="row")
        yield table
        yield Note("", id="kernel-why", classes="why")

    def open(self) -> None:
        """Focus the table, and read what was measured here."""
        self.query_one("#kernels").focus()
        self.read_made()

    @work(thread=True, exclusive=True, group="measured", description="reading the benchmarks")
    def read_made(self) -> None:
        """Read the benchmarks that were made here."""
        from kerneltui.bench.here import made_here

        self.post_message(self.Measured(made_here()))

    @on(Measured)
    def _measured(self, message: Measured) -> None:
        self._made = message.made
        self._explain()

    def show(self, state: WizardState) -> None:
        """Show the candidates; judge them anew when what they depend on has changed."""
        situation = state.situation
        if situation is None or situation.server.libraries is None:
            self.query_one("#kernel-why", Note).update(Content(state.busy or state.error or "asking TRL first"))
            return
        basis = (situation.model, situation.settings.values.get("packing"), situation.settings.dtype, situation.gpus)
        if basis == self._basis or not self.active:
            return
        self._basis, self._judged, self._recommended = basis, {}, None
        self.judge_all(situation, basis)

    @work(thread=True, exclusive=True, group="kernels", description="judging the attention kernels")
    def judge_all(self, situation: Situation, basis: tuple[Any, ...]) -> None:
        """Judge every candidate in the place of the one that the plan names."""
        worker, names = get_current_worker(), _candidates(situation)
        self.post_message(self.Found(basis, names))
        for name in names:
            if worker.is_cancelled:  # another plan is judged by now
                return
            try:
                found = with_attention(situation, name, self.session.asker, self.session.hub)
                self.post_message(self.Judged(name, found, verdict_of(found)))
            except KerneltuiError as error:
                self.post_message(self.Judged(name, situation, Verdict(kind="unknown", reason=error.title)))
        self.post_message(self.JudgedAll())

    @on(Found)
    def _found(self, message: Found) -> None:
        if message.basis == self._basis:
            self._names = message.names
            self._show_rows()

    @on(Judged)
    def _one_judged(self, message: Judged) -> None:
        if message.asked in self._names:
            self._judged[message.asked] = (message.situation, message.verdict)
            self._show_rows()

    @on(JudgedAll)
    def _all_judged(self) -> None:
        if not self._judged:  # all of another plan, and this one has begun anew
            return
        verdicts = {name: self._judged[name][1] for name in self._names if name in self._judged}
        first = next(iter(self._judged.values()))[0]
        self._recommended = recommend_attention(first, verdicts)
        self._show_rows()
        name = str(self._recommended.values.get("attn_implementation"))
        table = self.query_one("#kernels", DataTable)
        if not self._moved and name in self._names:
            table.move_cursor(row=self._names.index(name), animate=False)

    def on_key(self) -> None:
        """Once the person has moved, the cursor is theirs."""
        self._moved = True

    def on_data_table_row_selected(self) -> None:
        """Enter takes the row."""
        self.take()

    def take(self) -> None:
        """Take the implementation under the cursor, unless it is refused."""
        table = self.query_one("#kernels", DataTable)
        if not self._names or not 0 <= table.cursor_row < len(self._names):
            return
        name = self._names[table.cursor_row]
        found = self._judged[name][1] if name in self._judged else None
        if found and found.kind == "refused":
            self.notify(found.reason, title=f"{name} would not train", severity="warning", markup=False)
            return
        self.post_message(self.Chosen(values={"attn_implementation": name}))

    def _show_rows(self) -> None:
        table = self.query_one("#kernels", DataTable)
        show_rows(table, _HEADINGS, {name: self._row(name) for name in self._names})
        self._explain()

    def on_data_table_row_highlighted(self) -> None:
        """Say the verdict on the row under the cursor in full."""
        self._explain()

    def _explain(self) -> None:
        table = self.query_one("#kernels", DataTable)
        pending = len(self._names) - len(self._judged)
        lines = [f"{len(self._judged)} of {len(self._names)} judged …"] if pending else []
        if 0 <= table.cursor_row < len(self._names):
            name = self._names[table.cursor_row]
            if self._is_recommended(name) and self._recommended:
                lines.append(f"Recommended: {self._recommended.why}")
            elif name in self._judged:
                lines.append(self._judged[name][1].reason)
            lines += self._beside(name)
        self.query_one("#kernel-why", Note).update(Content("\n".join(lines)))

    def _beside(self, name: str) -> list[str]:
        """Return what was measured of an implementation here, where anything was."""
        if not self._made or name not in self._judged:
            return []
        from kerneltui.bench.here import beside_sdpa
        from kerneltui.show_bench import beside_line

        situation = self._judged[name][0]
        found = beside_sdpa(self._made, situation, situation.attention)
        return [beside_line(found)] if found else []

    def _is_recommended(self, name: str) -> bool:
        return self._recommended is not None and self._recommended.values.get("attn_implementation") == name

    def _row(self, name: str) -> tuple[str | Text | None, ...]:
        if name not in self._judged:
            return (Text(f"{SIGNS['unknown']} asking", style="dim"), name, "", "")
        situation, found = self._judged[name]
        choice = situation.attention
        loads = f"{choice.repository}@{choice.revision}" if choice.repository else choice.implementation
        return (
            verdict_words(found.kind),
            Text.assemble((name, "bold"), " ←") if self._is_recommended(name) else name,
            "–" if loads == name else loads.removeprefix(f"{name}@"),
            _brief(found.reason, name, choice),
        )


def _candidates(situation: Situation) -> list[str]:
    """Return what there is to choose from, and what the plan names."""
    assert situation.server.libraries
    own = situation.settings.get("model_name_or_path") == str(demo.model_path())
    names = attention_candidates(situation.server.libraries, embedded=own)
    asked = situation.settings.attention
    return [*names, *([asked] if asked and asked.partition("@")[0] not in names else [])]


def _brief(reason: str, name: str, choice: AttentionChoice) -> str:
    """Return a verdict without the name that stands in its row already."""
    named = (
        f"{choice.repository}@{choice.revision} ",
        f"{choice.repository} ",
        f"{choice.implementation} ",
        f"{name} ",
    )
    return next((reason.removeprefix(start) for start in named if reason.startswith(start)), reason)
