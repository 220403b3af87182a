"""Step 5: the kernel's revision, pinned to a branch or to a commit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.content import Content
from textual.message import Message
from textual.widgets import DataTable

from kerneltui.advice.recommend import Recommendation, recommend_revision
from kerneltui.advice.situation import Situation
from kerneltui.advice.verdict import Verdict, verdict_of
from kerneltui.assess import with_attention
from kerneltui.errors import KerneltuiError
from kerneltui.facts.builds import local_kernels
from kerneltui.tui.keys import REVISION_STEP, bindings
from kerneltui.tui.steps.step import Step, WizardState
from kerneltui.tui.widgets.lines import Note
from kerneltui.tui.widgets.tables import show_rows
from kerneltui.tui.widgets.verdicts import verdict_words

_HEADINGS = {"verdict": 0, "revision": 0, "commit": 0, "build": 100, "why": 0}
_PINS = {
    False: "Pinned to the branch: it gets builds for newer versions of torch, and may change under you.",
    True: "Pinned to the commit: it never changes, and never gets builds for a newer torch either.",
}


class RevisionStep(Step):
    """Branches and tags, newest first; `p` pins to the commit instead of the branch."""

    NAME = "Revision"
    PURPOSE = "Choose which version of the kernel to load. A branch gets new builds; a commit stays as it is for ever."
    KEYS = REVISION_STEP
    BINDINGS = bindings(REVISION_STEP)

    @dataclass
    class Found(Message):
        """The revisions of a repository were judged; `judged` maps a name to its situation and verdict."""

        repository: str
        judged: dict[str, tuple[Situation, Verdict]]

    @dataclass
    class Failed(Message):
        """The Hub did not tell."""

        error: KerneltuiError

    def __init__(self) -> None:
        super().__init__(id="step-revision")
        self._repository: str | None = None
        self._judged: dict[str, tuple[Situation, Verdict]] = {}
        self._recommended: Recommendation | None = None
        self._to_commit = False
        self._note = ""

    def compose(self) -> ComposeResult:
        """Lay out the table over the trade-off."""
        table: DataTable[Any] = DataTable(id="revisions", cursor_type="row")
        yield table
        yield Note("", id="revision-why", classes="why")
        yield Note("", id="revision-pin", classes="quiet")

    def open(self) -> None:
        """Focus the table; where there is nothing to choose Enter goes on."""
        self.focus_if_shown("#revisions")

    def show(self, state: WizardState) -> None:
        """Show the revisions of the chosen kernel; nothing to choose for a built-in attention."""
        situation = state.situation
        if situation is None:
            self._say(state.busy or state.error or "")
            return
        repository = situation.attention.repository
        local = repository in local_kernels(situation.environment)
        if repository is None or local:
            self._repository, self._judged = None, {}
            what = f"{repository} comes from a folder (LOCAL_KERNELS)" if local else "this attention is built in"
            self._say(f"Nothing to choose: {what}. Enter goes on.")
        elif repository != self._repository and self.active:
            self._repository, self._judged = repository, {}
            self._say(f"asking the Hub about {repository} …")
            self.find(situation)

    @work(thread=True, exclusive=True, group="revisions", description="judging the kernel's revisions")
    def find(self, situation: Situation) -> None:
        """Judge every branch and tag in the place of the one that the plan names."""
        repository = str(situation.attention.repository)
        try:
            names = [found.name for found in self.session.hub.revisions(repository)]
            judged = {}
            for name in names:
                found = with_attention(situation, f"{repository}@{name}", self.session.asker, self.session.hub)
                judged[name] = (found, verdict_of(found))
        except KerneltuiError as error:
            self.post_message(self.Failed(error))
            return
        self.post_message(self.Found(repository, judged))

    @on(Found)
    def _found(self, message: Found) -> None:
        if message.repository != self._repository or not message.judged:
            return
        self._judged = message.judged
        first = next(iter(message.judged.values()))[0]
        self._recommended = recommend_revision(first, {name: found for name, (_, found) in message.judged.items()})
        self._show_rows()
        self._say(self._recommended.why)
        chosen = str(self._recommended.values.get("attn_implementation", "")).partition("@")[2]
        if chosen in self._judged:
            self.query_one("#revisions", DataTable).move_cursor(row=list(self._judged).index(chosen), animate=False)

    @on(Failed)
    def _failed(self, message: Failed) -> None:
        self._repository = None
        self._say(f"✖ {message.error.title}. {message.error.hint} Enter keeps the branch that transformers takes.")

    def action_pin(self) -> None:
        """Pin to the commit, or to the branch."""
        self._to_commit = not self._to_commit
        self._show_rows()

    def on_data_table_row_selected(self) -> None:
        """Enter takes the row."""
        self.take()

    def take(self) -> None:
        """Take the revision under the cursor, unless it is refused."""
        table = self.query_one("#revisions", DataTable)
        if not self._judged or not 0 <= table.cursor_row < len(self._judged):
            self.post_message(self.Chosen())
            return
        name = list(self._judged)[table.cursor_row]
        situation, found = self._judged[name]
        if found.kind == "refused":
            self.notify(found.reason, title=f"{name} would not train", severity="warning", markup=False)
            return
        commit = situation.build.commit if situation.build else None
        revision = commit if self._to_commit and commit else name
        self.post_message(self.Chosen(values={"attn_implementation": f"{self._repository}@{revision}"}))

    def _show_rows(self) -> None:
        table = self.query_one("#revisions", DataTable)
        if table.display != bool(self._judged):
            table.display = bool(self._judged)
            if self.active:
                self.call_after_refresh(self.open)
        show_rows(table, _HEADINGS, {name: self._row(name) for name in self._judged})
        self.query_one("#revision-pin", Note).update(Content(_PINS[self._to_commit]) if self._judged else "")

    def _row(self, name: str) -> tuple[str | Text | None, ...]:
        situation, found = self._judged[name]
        build = situation.build
        recommended = self._recommended and str(self._recommended.values.get("attn_implementation", "")).endswith(
            f"@{name}"
        )
        return (
            verdict_words(found.kind),
            name,
            Text(build.commit[:8] if build else "–", style="bold" if self._to_commit else ""),
            build.variant if build else None,
            Text.assemble(found.reason, (" ← recommended", "bold") if recommended else ""),
        )

    def _say(self, text: str) -> None:
        self._note = text
        self.query_one("#revision-why", Note).update(Content(text))
        if not self._judged:
            self._show_rows()
