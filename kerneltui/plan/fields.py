"""The fields of a trainer's configuration, as the installed TRL has them."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from kerneltui.interpreter import Asker, ProgressCallback
from kerneltui.plan.settings import unknown_trainer
from kerneltui.records import Record, from_builtins
from kerneltui.text import plain

Kind = Literal["bool", "int", "float", "str", "choice", "list", "mapping"]

_TAKES: dict[str, str] = {
    "bool": "yes or no",
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "mapping": "a mapping such as {name: value}",
}
_LISTS = {
    "int": "whole numbers with commas between",
    "float": "numbers with commas between",
    "mapping": "a list of mappings such as [{name: value}]",
}


class Field(Record):
    """One field of a trainer's command, as the installed TRL has it.

    `owner` is the class that holds it, `own` tells whether this trainer's configuration adds it to what all trainers
    share. `type` is the word for what it takes, `kinds` all that it takes, `items` what the elements of a list are;
    `optional` fields take null. `choices` are the only values of a choice; `suggestions` values that TRL's help text
    names. `help` is that text.
    """

    name: str
    owner: str
    type: Kind
    kinds: tuple[str, ...] = ()
    items: str | None = None
    optional: bool = False
    default: Any = None
    choices: tuple[Any, ...] = ()
    suggestions: tuple[str, ...] = ()
    help: str = ""
    own: bool = False

    @property
    def takes(self) -> str:
        """What the field takes, in a few words."""
        if self.type == "choice":
            words = "one of " + ", ".join(map(str, self.choices))
        elif self.type == "list":
            words = _LISTS.get(self.items or "str", "words with commas between")
        else:
            words = " or ".join(_TAKES[kind] for kind in (self.type, *(k for k in self.kinds if k != self.type)))
        return f"{words}, or null" if self.optional else words


def read_fields(asker: Asker, trainer: str, *, on_progress: ProgressCallback | None = None) -> tuple[Field, ...]:
    """Return the fields of a trainer's command in TRL's order. Raises UsageError for a trainer that TRL lacks."""
    answer = asker.ask("trl.fields", trainer=trainer, on_progress=on_progress)
    if "trainers" in answer:
        raise unknown_trainer(trainer, answer["trainers"])
    fields = from_builtins(answer["fields"], tuple[Field, ...], "TRL's fields")
    return tuple(_shown(field) for field in fields)


def _shown(field: Field) -> Field:
    """Return the field with a help text that is safe to show."""
    return msgspec.structs.replace(field, help=plain(field.help))
