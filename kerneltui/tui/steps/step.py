"""What the seven steps have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Input

from kerneltui.tui.keys import Key

if TYPE_CHECKING:
    from kerneltui.advice.assessment import Assessment
    from kerneltui.advice.recommendation import Recommendation
    from kerneltui.advice.situation import Situation
    from kerneltui.facts.server import Server
    from kerneltui.plan.plan import Plan
    from kerneltui.tui.app import KerneltuiApp
    from kerneltui.tui.session import Session


@dataclass(frozen=True)
class WizardState:
    """What the wizard knows: the plan, and the facts and findings about it as far as they are there.

    `start` is the model and the data to start from; `error` says why the plan could not be judged; `busy` what is being
    found out.
    """

    plan: Plan
    server: Server | None = None
    start: Recommendation | None = None
    situation: Situation | None = None
    assessment: Assessment | None = None
    error: str | None = None
    busy: str | None = None


class Step(Vertical):
    """One step. It shows the state, and posts what the person chose; the wizard changes the plan."""

    NAME = ""
    PURPOSE = ""
    ENTER = "Take it"
    """What Enter does here, in the footer."""
    KEYS: tuple[Key, ...] = ()
    active = False
    """Whether this is the step in front; only then is it worth asking anything for it."""

    @dataclass
    class Chosen(Message):
        """The person chose: configuration keys to set and to remove, another trainer, changes to how it is launched.

        `onward` goes on to the next step.
        """

        values: Mapping[str, Any] = field(default_factory=dict)
        remove: tuple[str, ...] = ()
        trainer: str | None = None
        launch: Mapping[str, Any] = field(default_factory=dict)
        onward: bool = True

    def show(self, state: WizardState) -> None:
        """Show the state; called when the step is opened and at every change."""

    def take(self) -> None:
        """Take what is marked: post `Chosen`."""
        self.post_message(self.Chosen())

    def open(self) -> None:
        """Put the focus where the person answers."""

    @property
    def typing(self) -> bool:
        """Whether letters go into a line to type in, so that keys which are letters do not work."""
        return isinstance(self.screen.focused, Input) if self.is_attached else False

    def focus_if_shown(self, selector: str) -> None:
        """Focus a widget; where it is hidden nothing has the focus, and Enter is the wizard's."""
        widget = self.query_one(selector)
        self.screen.set_focus(widget if widget.display else None)

    @property
    def kerneltui(self) -> KerneltuiApp:
        """The app, with its own type."""
        return cast("KerneltuiApp", self.app)

    @property
    def session(self) -> Session:
        """The session of the app."""
        return self.kerneltui.session
