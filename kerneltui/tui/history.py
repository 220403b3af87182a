"""What a person does with a list of runs: narrow it, sort it, tag runs and remove them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from textual import work

from kerneltui.errors import KerneltuiError
from kerneltui.tui.resuming import ResumesRuns

if TYPE_CHECKING:
    from kerneltui.runs.delete import Deletion
    from kerneltui.runs.directory import RunDirectory
    from kerneltui.runs.view_record import RunView

# The orders that one key goes through; the first is that of the list itself: live ones first, then the newest.
_ORDERS = ("", "loss", "speed", "hours", "name", "state")


class KeepsHistory(ResumesRuns):
    """What a screen with a list of runs needs; it has the actions `filter_runs`, `sort_runs`, `tag`, `delete_run`."""

    words = ""
    order = ""

    def current_run(self) -> RunView | None:
        """Return the run under the cursor."""
        raise NotImplementedError

    def show_again(self) -> None:
        """Show the list as it is now to be shown; the runs may have changed on disk."""
        raise NotImplementedError

    def chosen(self, runs: list[RunView]) -> list[RunView]:
        """Return those of the runs that are to be shown, in their order."""
        from kerneltui.runs.select import filter_views, sort_views

        found = filter_views(runs, self.words) if self.words else runs
        return sort_views(found, self.order) if self.order else found

    def selection_words(self) -> str:
        """Return how the list is narrowed and sorted; empty where it is not."""
        parts = [f"only {self.words}" if self.words else "", f"by {self.order}" if self.order else ""]
        return " · ".join(part for part in parts if part)

    def action_filter_runs(self) -> None:
        """Ask for the words that narrow the list."""
        from kerneltui.tui.screens.ask_line import AskLine

        words = "Words of name, state, trainer, model, attention or remark; #word is a tag. An empty line shows all."
        self.app.push_screen(AskLine("Which runs", words, self.words), self._narrowed)

    def _narrowed(self, words: str | None) -> None:
        if words is not None:
            self.words = words
            self.show_again()

    def action_sort_runs(self) -> None:
        """Sort the list by the next of its orders."""
        self.order = _ORDERS[(_ORDERS.index(self.order) + 1) % len(_ORDERS)]
        self.show_again()

    def action_tag(self) -> None:
        """Ask for the tags of the run under the cursor."""
        from kerneltui.tui.screens.ask_line import AskLine

        view = self.current_run()
        if view is not None:
            words = "Its tags, with a space between; those that are taken away here are removed."
            question = AskLine(f"Tags of {view.name}", words, " ".join(view.tags))
            self.app.push_screen(question, partial(self._tagged, view))

    def _tagged(self, view: RunView, words: str | None) -> None:
        from kerneltui.runs.notes import change_notes

        if words is None:
            return
        tags = words.replace("#", " ").split()
        try:
            change_notes(_directory(view), add=tags, remove=set(view.tags) - set(tags))
        except KerneltuiError as error:
            self._fail(error)
        self.show_again()

    def action_delete_run(self) -> None:
        """Ask whether to remove the run under the cursor; its size is found out first."""
        view = self.current_run()
        if view is not None:
            self._measure(view)

    @work(thread=True, exclusive=True, group="delete", description="measuring a run")
    def _measure(self, view: RunView) -> None:
        from kerneltui.runs.delete import plan_deletion

        try:
            found = plan_deletion(_directory(view))
        except KerneltuiError as error:
            self.app.call_from_thread(self._fail, error)
        else:
            self.app.call_from_thread(self._ask_deletion, found)

    def _ask_deletion(self, found: Deletion) -> None:
        from kerneltui.fetch import gigabytes
        from kerneltui.tui.widgets.confirm import Confirm

        kept = f"\n\nIts output in {found.kept} stays." if found.kept else ""
        words = f"{gigabytes(found.size)}: its record, checkpoints and model. This cannot be undone.{kept}"
        question = Confirm(f"Remove {found.run.name}?", words, "Remove it", no="Keep it", grave=True)
        self.app.push_screen(question, partial(self._deletion_answered, found))

    def _deletion_answered(self, found: Deletion, yes: bool | None) -> None:
        if yes:
            self._delete(found)

    @work(thread=True, group="delete", description="removing a run")
    def _delete(self, found: Deletion) -> None:
        from kerneltui.runs.delete import delete

        try:
            delete(found)
        except KerneltuiError as error:
            self.app.call_from_thread(self._fail, error)
        self.app.call_from_thread(self.show_again)


def _directory(view: RunView) -> RunDirectory:
    from kerneltui.runs.directory import RunDirectory

    return RunDirectory(Path(view.path))
