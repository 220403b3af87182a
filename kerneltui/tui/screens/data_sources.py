"""Changing the data on its screen: another configuration or split, more parts, a copy with other columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textual import on, work
from textual.message import Message

from kerneltui.errors import KerneltuiError
from kerneltui.facts.choices import Choices, read_choices
from kerneltui.facts.copying import Copied
from kerneltui.facts.dataset import sources_of
from kerneltui.facts.local_data import BUILDERS
from kerneltui.facts.mapping import ColumnMapping
from kerneltui.plan.edit import split_changes
from kerneltui.plan.sources import data_values
from kerneltui.tui.screens.ask import Ask
from kerneltui.tui.screens.base import BaseScreen
from kerneltui.tui.screens.choose import Choose
from kerneltui.tui.screens.copy_data import CopyData


@dataclass(frozen=True)
class DataChange:
    """What the person changed of the data: configuration keys to set and to remove."""

    values: Mapping[str, Any]
    remove: tuple[str, ...] = ()


class ChangesData(BaseScreen[DataChange | None]):
    """What a screen needs to change the data that `values` name; its result is what was changed, None for nothing."""

    @dataclass
    class Offered(Message):
        """What the data at `path` offers to choose from; its splits are those of the chosen `configuration`."""

        path: str
        choices: Choices
        configuration: str | None

    def __init__(self, values: Mapping[str, Any], cwd: Path, trainer: str) -> None:
        super().__init__()
        self.values, self.cwd, self.trainer = dict(values), cwd, trainer
        self._changes: dict[str, Any] = {}

    @property
    def part(self) -> int:
        """The part of a mixture that keys change, from 0."""
        return 0

    @property
    def mapping(self) -> ColumnMapping | None:
        """The mapping with which the trainer could read the data."""
        return None

    def say(self, text: str) -> None:
        """Show what is being done now, nothing where it is done."""

    def read_anew(self) -> None:
        """Read the data, which was changed."""

    def action_choose(self) -> None:
        """Choose the configuration and the split of the data, of a mixture those of the part under the cursor."""
        entry = self._entry()
        if entry is None or entry["path"] in BUILDERS.values():
            self.notify("Files have no configurations, and one split.", severity="warning")
            return
        self.say("asking for its configurations and splits")
        self.ask_choices(str(entry["path"]), None)

    @work(thread=True, exclusive=True, group="choices", description="asking for configurations and splits")
    def ask_choices(self, path: str, configuration: str | None) -> None:
        """Ask what there is to choose from."""
        try:
            choices = read_choices(self.kerneltui.session.reader, path, self.cwd, configuration=configuration)
        except KerneltuiError as error:
            self.post_message(self.Failed(error))
        else:
            self.post_message(self.Offered(path, choices, configuration))

    @on(Offered)
    def _offered(self, message: Offered) -> None:
        """Let the person choose a configuration where there are several, then a split of it."""
        entry, choices = self._entry(), message.choices
        self.say("")
        if entry is None or entry["path"] != message.path:
            return
        if message.configuration is None and len(choices.configurations) > 1:
            current = entry.get("name") or choices.default
            chosen = Choose("Configuration", choices.configurations, current)
            self.app.push_screen(chosen, lambda it: self._configured(message.path, it))
        else:
            chosen = Choose("Split", choices.splits, entry.get("split") or "train")
            only = message.configuration or (None if choices.default else choices.configuration)
            self.app.push_screen(chosen, lambda it: self._take(name=only, split=it) if it else None)

    def _configured(self, path: str, configuration: str | None) -> None:
        if configuration:
            self.ask_choices(path, configuration)

    def action_add(self) -> None:
        """Add a data set: TRL joins several into one."""
        self.app.push_screen(Ask("Add data", "owner/name on the Hub, or a file"), self._add)

    def action_remove(self) -> None:
        """Take the part under the cursor out of the mixture."""
        entries = self._entries()
        if len(entries) > 1:
            entries.pop(self.part)
            self._change({"datasets": entries})

    def action_mend(self) -> None:
        """Write a copy of the data with the columns that the trainer reads."""
        if self.mapping is None:
            self.notify("There is nothing to mend here by other columns.")
            return
        self.app.push_screen(CopyData(self.values, self.cwd, self.trainer, self.mapping), self._mended)

    def _mended(self, copied: Copied | None) -> None:
        if copied is not None:
            self._change(copied.changes)

    def action_back(self) -> None:
        """Leave, with what was changed."""
        self.dismiss(DataChange(*split_changes(self._changes)) if self._changes else None)

    def _entries(self) -> list[dict[str, Any]]:
        """Return the data sets as entries of `datasets`, without what is not said of them."""
        try:
            found = sources_of(self.values)
        except KerneltuiError:
            return []
        return [
            {key: value for key, value in entry.items() if value is not None and (key, value) != ("split", "train")}
            for entry in found
        ]

    def _entry(self) -> dict[str, Any] | None:
        entries = self._entries()
        return entries[self.part] if self.part < len(entries) else None

    def _take(self, name: str | None, split: str) -> None:
        """Take another configuration and split, where the data is named."""
        if not self.values.get("datasets"):
            self._change({"dataset_config": name, "dataset_train_split": split})
            return
        entries = self._entries()
        kept = {key: value for key, value in entries[self.part].items() if key not in ("name", "split")}
        entries[self.part] = {**kept, **({"name": name} if name else {}), "split": split}
        self._change({"datasets": entries})

    def _add(self, text: str | None) -> None:
        if not text:
            return
        try:
            found, _ = data_values(text, self.cwd)
        except KerneltuiError as error:
            self.kerneltui.show_error(error)
            return
        new = found.get("datasets") or [{"path": found["dataset_name"]}]
        gone = ("dataset_name", "dataset_config", "dataset_train_split")
        self._change({"datasets": [*self._entries(), *new], **dict.fromkeys(gone)})

    def _change(self, changes: Mapping[str, Any]) -> None:
        """Change what names the data, None removes a key, and read it."""
        self._changes |= changes
        self.values |= changes
        self.read_anew()
