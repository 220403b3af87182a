"""The form: the fields of a trainer that matter first, in groups; every other field of TRL behind them."""

from __future__ import annotations

from collections.abc import Iterable

from kerneltui.plan.fields import Field
from kerneltui.plan.group_words import FIRST, GROUPS, LAST, Entry, Group

__all__ = ["GROUPS", "Entry", "Group", "find_fields", "groups", "other_fields"]

_OWN = "What this trainer adds"
_OTHERS = "Everything else"


def groups(trainer: str, fields: Iterable[Field]) -> tuple[Group, ...]:
    """Return the groups of a trainer with the fields that the installed TRL has; a group without any is left out.

    A trainer without groups of its own has the common ones, and what it adds to all trainers in TRL's words.
    """
    known = {field.name: field for field in fields}
    first, last = GROUPS.get(trainer, FIRST), () if trainer in GROUPS else LAST
    found: list[Group] = []
    taken: set[str] = set()
    for group in (*first, *last):
        entries = tuple(entry for entry in group.entries if entry.name in known and entry.name not in taken)
        taken |= {entry.name for entry in entries}
        found.append(Group(title=group.title, help=group.help, entries=entries))
    own = tuple(_plain(field) for field in known.values() if field.own and field.name not in taken)
    found.insert(len(first), Group(title=_OWN, help="In TRL's own words.", entries=own))
    return tuple(group for group in found if group.entries)


def other_fields(trainer: str, fields: Iterable[Field]) -> Group:
    """Return the fields that stand in no group, in TRL's order and words."""
    fields = tuple(fields)
    grouped = {entry.name for group in groups(trainer, fields) for entry in group.entries}
    entries = tuple(_plain(field) for field in fields if field.name not in grouped)
    return Group(title=_OTHERS, help="Every other field of the installed TRL, in its own words.", entries=entries)


def find_fields(fields: Iterable[Field], text: str) -> list[Field]:
    """Return the fields that have a text in their name or their help, in any case; first those of that very name."""
    wanted = text.strip().lower()
    found = [field for field in fields if wanted in field.name.lower() or wanted in field.help.lower()]
    return sorted(found, key=lambda field: (field.name != wanted, wanted not in field.name.lower()))


def _plain(field: Field) -> Entry:
    """Return a field with its own name as the label and the first sentence of TRL's help."""
    return Entry(name=field.name, label=field.name.replace("_", " "), help=field.help.partition(". ")[0])
