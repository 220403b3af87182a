"""A question before something that cannot be undone."""

from __future__ import annotations

from dataclasses import dataclass

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Static


class Answer(Static, can_focus=True):
    """One of the two answers, taken by enter or a click."""

    BINDINGS = [Binding("enter,space", "give", "Take it", show=False)]

    @dataclass
    class Given(Message):
        """An answer was taken."""

        yes: bool

    def __init__(self, text: str, *, id: str) -> None:
        super().__init__(Content(text), id=id)

    def action_give(self) -> None:
        """Take this answer."""
        self.post_message(self.Given(self.id == "yes"))

    def on_click(self) -> None:
        """Take this answer."""
        self.action_give()


class Confirm(ModalScreen[bool]):
    """Asks one question; its result is whether the answer was yes.

    `yes` and `no` name the answers. Enter takes the answer with the focus: yes, or no where the question is `grave`.
    """

    CSS_PATH = "confirm.tcss"
    BINDINGS = [
        Binding("y", "answer(True)", "Yes"),
        Binding("n,escape,q", "answer(False)", "No"),
        Binding("left,right", "app.focus_next", "Other answer", show=False),
    ]

    def __init__(
        self, title: str, message: str | Content, yes: str, *, no: str = "Cancel", grave: bool = False
    ) -> None:
        super().__init__(classes="-grave" if grave else "")
        self._question_title = title
        self._message = Content(message) if isinstance(message, str) else message
        self._answers = (yes, no)
        self._grave = grave

    def compose(self) -> ComposeResult:
        """Lay out the question over its two answers."""
        yes, no = self._answers
        with Vertical(id="question") as box:
            box.border_title = Content(self._question_title)
            yield Static(self._message)
            with Horizontal(id="answers"):
                yield Answer(f"y  {yes}", id="yes")
                yield Answer(f"n  {no}", id="no")

    def on_mount(self) -> None:
        """Put the focus on the answer that does no harm."""
        self.query_one("#no" if self._grave else "#yes", Answer).focus()

    def on_answer_given(self, message: Answer.Given) -> None:
        """Give the answer."""
        message.stop()
        self.dismiss(message.yes)

    def action_answer(self, answer: bool) -> None:
        """Give the answer."""
        self.dismiss(answer)
