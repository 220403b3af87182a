"""The proof of a plan while it is made, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual import on, work
from textual.content import Content
from textual.message import Message

from kerneltui.errors import KerneltuiError
from kerneltui.text import plain, plain_line
from kerneltui.tui.widgets.lines import Note

if TYPE_CHECKING:
    from kerneltui.advice.situation import Situation
    from kerneltui.facts.proof import Proof
    from kerneltui.plan.plan import Plan
    from kerneltui.prove.prove import Proving
    from kerneltui.tui.session import Session


class ProofNote(Note):
    """Makes the proof of one plan at a time behind the screen; another plan ends it and takes its place."""

    @dataclass
    class Progress(Message):
        """What is being tried now, and for which plan."""

        plan: Plan
        text: str

        def can_replace(self, message: Message) -> bool:
            """A newer word replaces one that was not yet shown."""
            return isinstance(message, ProofNote.Progress)

    @dataclass
    class Made(Message):
        """The proof so far; `whole` is whether all of it was made."""

        plan: Plan
        proof: Proof
        whole: bool

    @dataclass
    class Ended(Message):
        """It was not made to its end, and why."""

        plan: Plan
        error: KerneltuiError

    def __init__(self, *, id: str) -> None:
        super().__init__("", id=id)
        self._plan: Plan | None = None
        self._proof: Proof | None = None
        self._proving: Proving | None = None
        self._doing = ""

    @property
    def busy(self) -> bool:
        """Whether a proof is being made."""
        return self._proving is not None

    def proof_of(self, plan: Plan) -> Proof | None:
        """Return the proof of a plan, None where none was made to its end."""
        return self._proof if plan == self._plan and not self.busy else None

    def start(self, situation: Situation, session: Session) -> None:
        """Make the proof of a situation's plan."""
        from kerneltui.prove.prove import Proving

        self.stop()
        self._plan = situation.plan
        self._proving = Proving(situation, session.asker, session.hub, session.python)
        self._doing = "beginning"
        self._draw()
        self._prove(situation.plan, self._proving)

    def stop(self) -> None:
        """End what is being tried, and forget what came of it."""
        if self._proving:
            self._proving.cancel()
        self._plan = self._proof = self._proving = None
        self._draw()

    def follow(self, plan: Plan) -> None:
        """Keep the proof of this plan alone."""
        if self._plan is not None and plan != self._plan:
            self.stop()

    def on_unmount(self) -> None:
        """End what is being tried."""
        if self._proving:
            self._proving.cancel()

    @work(thread=True, exclusive=True, group="proof", description="trying the plan")
    def _prove(self, plan: Plan, proving: Proving) -> None:
        def tell(part: str, text: str) -> None:
            self.post_message(self.Progress(plan, f"{part}: {text}"))

        def show(proof: Proof) -> None:
            self.post_message(self.Made(plan, proof, False))

        try:
            proof = proving.run(tell, show)
        except KerneltuiError as error:
            self.post_message(self.Ended(plan, error))
        else:
            self.post_message(self.Made(plan, proof, True))

    @on(Progress)
    def _progress(self, message: Progress) -> None:
        if message.plan == self._plan and self.busy:
            self._doing = message.text
            self._draw()

    @on(Made)
    def _made(self, message: Made) -> None:
        if message.plan == self._plan and self.busy:
            self._proof = message.proof
            self._proving = None if message.whole else self._proving
            self._draw()

    @on(Ended)
    def _ended(self, message: Ended) -> None:
        if message.plan == self._plan and self.busy:
            self._proving = None
            self.update(Content.styled(f"\n✖ {plain_line(str(message.error))}", "$error"))

    def _draw(self) -> None:
        from kerneltui.show_proof import proof_lines

        width = max(40, self.size.width - 4)
        lines = proof_lines(self._proof, width=width) if self._proof else []
        parts = [Content.styled(f"{plain_line(self._doing)} …", "$secondary")] if self.busy else []
        parts += [_coloured(plain(line)) for line in lines]
        heading = [Content(""), Content.styled("The proof", "bold")] if parts else []
        self.update(Content("\n").join([*heading, *parts]))


def _coloured(line: str) -> Content:
    """Return a line in the colour of its sign."""
    colours = {"✔": "$success", "✖": "$error", "▲": "$warning"}
    colour = colours.get(line.lstrip()[:1])
    return Content.styled(line, colour) if colour and not line.startswith(" ") else Content(line)
