"""What the screens of this app have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar, cast

from textual.message import Message
from textual.screen import Screen

from kerneltui.errors import KerneltuiError

if TYPE_CHECKING:
    from kerneltui.tui.app import KerneltuiApp

Result = TypeVar("Result")


class BaseScreen(Screen[Result]):
    """A screen whose workers tell how far they are, and what they could not do."""

    @dataclass
    class Progress(Message):
        """What is being done or found out now."""

        text: str

        def can_replace(self, message: Message) -> bool:
            """A newer word replaces one that was not yet shown."""
            return isinstance(message, BaseScreen.Progress)

    @dataclass
    class Failed(Message):
        """Something could not be done or found out; `error` says what, why, and the next step."""

        error: KerneltuiError

    @property
    def kerneltui(self) -> KerneltuiApp:
        """The app, with its own type."""
        return cast("KerneltuiApp", self.app)

    def tell(self, text: str) -> None:
        """Post what is being done now; for workers."""
        self.post_message(self.Progress(text))
