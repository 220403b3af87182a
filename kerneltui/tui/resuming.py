"""Going on with a run from a screen: its checkpoints are checked, then the person is asked, then it starts."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from textual import work

from kerneltui.errors import KerneltuiError
from kerneltui.tui.screens.base import BaseScreen

if TYPE_CHECKING:
    from kerneltui.runs.directory import RunDirectory
    from kerneltui.runs.resume import Resumption


class ResumesRuns(BaseScreen[str]):
    """What a screen needs to go on with a run; nothing is shown of it but a question, a message and errors."""

    @work(thread=True, exclusive=True, group="resume", description="checking the checkpoints")
    def resume_run(self, run: RunDirectory) -> None:
        """Check the run's checkpoints, and ask whether to go on from the newest that is whole."""
        from kerneltui.runs.resume import plan_resumption

        try:
            found = plan_resumption(run)
        except KerneltuiError as error:
            self.app.call_from_thread(self._fail, error)
        else:
            self.app.call_from_thread(self._ask, found)

    def _ask(self, found: Resumption) -> None:
        from kerneltui.tui.widgets.confirm import Confirm

        words = "\n\n".join(line[0].upper() + line[1:] for line in found.words)
        question = Confirm(f"Go on with {found.run.name}?", f"{words}\n\nIt becomes attempt {found.attempt}.", "Go on")
        self.app.push_screen(question, partial(self._answered, found))

    def _answered(self, found: Resumption, yes: bool | None) -> None:
        if yes:
            self.notify(f"Starting attempt {found.attempt} of {found.run.name} …", markup=False)
            self._start(found)

    @work(thread=True, group="resume", description="starting the next attempt")
    def _start(self, found: Resumption) -> None:
        from kerneltui.runs.resume import resume

        try:
            resume(found)
        except KerneltuiError as error:
            self.app.call_from_thread(self._fail, error)

    def _fail(self, error: KerneltuiError) -> None:
        from kerneltui.tui.screens.dialog import ErrorDialog

        self.app.push_screen(ErrorDialog(error))
