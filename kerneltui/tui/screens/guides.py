"""Ready plans to start from: for a first run, without having to know models and data by name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import DataTable

from kerneltui.advice.guides import Guide, reaches_hub, ready_plans
from kerneltui.errors import KerneltuiError
from kerneltui.tui.widgets.lines import Note
from kerneltui.tui.widgets.tables import show_rows

if TYPE_CHECKING:
    from kerneltui.tui.app import KerneltuiApp

_HEADINGS = ("plan", "trainer", "model", "data")
# The step of the wizard in which the choice of the kernel begins: what comes before is answered.
_KERNEL_STEP = 3


class GuidesScreen(ModalScreen[None]):
    """A table of ready plans; Enter opens the wizard on one, at the choice of the kernel."""

    BINDINGS = [Binding("escape,q", "dismiss", "Close")]
    CSS_PATH = "guides.tcss"

    @dataclass
    class Made(Message):
        """The plans for this server; `online` tells whether the Hub answers."""

        guides: tuple[Guide, ...]
        online: bool

    @dataclass
    class Failed(Message):
        """The server could not be read."""

        error: KerneltuiError

    def __init__(self) -> None:
        super().__init__()
        self._guides: tuple[Guide, ...] = ()

    def compose(self) -> ComposeResult:
        """Lay out the table over the reason."""
        with Vertical(id="guides-box") as box:
            box.border_title = "Ready plans"
            box.border_subtitle = "enter Choose   esc Close"
            table: DataTable[Any] = DataTable(id="guides", cursor_type="row")
            yield table
            yield Note("reading the server …", id="guides-why")

    def on_mount(self) -> None:
        """Make the plans behind the screen: their size is that of the server."""
        self.make()

    @work(thread=True, exclusive=True, group="guides", description="making ready plans")
    def make(self) -> None:
        """Read the server, and make the plans for it."""
        try:
            server = cast("KerneltuiApp", self.app).session.server()
        except KerneltuiError as error:
            self.post_message(self.Failed(error))
            return
        self.post_message(self.Made(ready_plans(server, str(Path.cwd())), reaches_hub(server)))

    def on_guides_screen_made(self, message: Made) -> None:
        """Show the plans."""
        self._guides = message.guides
        if not message.online:
            self.query_one("#guides-box").border_title = "Ready plans (the Hub does not answer)"
        rows = {
            f"{guide.plan.trainer} {guide.embedded}": (
                Text(guide.title, style="bold"),
                guide.plan.trainer,
                guide.model,
                guide.data,
            )
            for guide in message.guides
        }
        table = self.query_one("#guides", DataTable)
        show_rows(table, _HEADINGS, rows)
        table.focus()

    def on_guides_screen_failed(self, message: Failed) -> None:
        """Say why there are none."""
        self.query_one("#guides-why", Note).update(Content(str(message.error)))

    def on_data_table_row_highlighted(self) -> None:
        """Say why the plan under the cursor is as it is."""
        if guide := self._current():
            self.query_one("#guides-why", Note).update(Content(f"{guide.plan.trainer} on {guide.data}. {guide.why}"))

    def on_data_table_row_selected(self) -> None:
        """Open the wizard on the plan."""
        from kerneltui.tui.screens.wizard import WizardScreen

        if guide := self._current():
            self.app.switch_screen(WizardScreen(guide.plan, _KERNEL_STEP))

    def _current(self) -> Guide | None:
        row = self.query_one("#guides", DataTable).cursor_row
        return self._guides[row] if 0 <= row < len(self._guides) else None
