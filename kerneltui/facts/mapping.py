"""How the columns that a trainer reads are made of those that a data set has."""

from __future__ import annotations

from collections.abc import Iterable

from kerneltui.errors import UsageError
from kerneltui.records import Record


class ColumnMapping(Record):
    """Which columns become which. TRL has no setting that renames, so a copy of the data is written by it.

    `columns` has for each column that the trainer reads those that it is made of: texts are joined by an empty line,
    and a conversation is put together of its parts in their order. With `chat` text becomes messages: of a prompt a
    user's, after the text of the column `system`, of an answer the assistant's. `roles` are new names for roles.
    Columns that are not used are kept, unless TRL would read them by their name.
    """

    columns: dict[str, tuple[str, ...]]
    system: str | None = None
    chat: bool = False
    roles: dict[str, str] = {}

    @property
    def words(self) -> str:
        """What it does, in one line."""
        parts = [f"{' and '.join(found)} as {name}" for name, found in self.columns.items() if found != (name,)]
        parts += [f"{self.system} as system message"] if self.system else []
        parts += [f"the role {old} as {new}" for old, new in self.roles.items()]
        return ", ".join(parts or self.columns) + (", in messages" if self.chat else "")


def parse_columns(pairs: Iterable[str], names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the columns of a mapping written as `prompt=question` or `prompt=instruction+input`.

    Raises UsageError for what is no such pair, and for a column that is not among `names`.
    """
    known, found = list(names), {}
    for pair in pairs:
        target, equals, sources = pair.partition("=")
        if not (target and equals and sources):
            raise UsageError(f"{pair!r} maps nothing", hint="Write NEW=OLD, or NEW=OLD+OLD: --map prompt=question")
        found[target] = (sources,) if sources in known else tuple(sources.split("+"))
        if lacking := [name for name in found[target] if name not in known]:
            raise UsageError(f"There is no column {lacking[0]}", f"The columns are {', '.join(known)}.", "Name one.")
    return found
