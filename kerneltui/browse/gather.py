"""The rows of the list as they come: kept ones first, then the Hub's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from kerneltui.browse.records import KernelRow, listed_row
from kerneltui.errors import HubError
from kerneltui.facts.hub import Hub
from kerneltui.facts.hub_store import FOREVER
from kerneltui.facts.kernel_records import KernelRepo

OnRow = Callable[[KernelRow], None]


def kept_rows(hub: Hub, author: str | None, text: str = "") -> list[KernelRow]:
    """Return the rows of the list as it was kept from earlier, without verdicts and without a request."""
    return [listed_row(it) for it in kept_list(hub, author, text) or ()]


def kept_list(hub: Hub, author: str | None, text: str) -> list[KernelRepo] | None:
    """Return the list as it was kept from earlier, without a request; None where it was not."""
    try:
        return named(hub.kept().list_kernels(author, keep=FOREVER), text)
    except HubError:
        return None


class Gatherer:
    """The rows so far; each is told when it comes."""

    def __init__(self, on_row: OnRow | None) -> None:
        self.rows: dict[str, KernelRow] = {}
        self._tell = on_row or (lambda row: None)

    def put(self, row: KernelRow) -> None:
        """Take in a row; one that says the same as before is not told again."""
        before, self.rows[row.repository] = self.rows.get(row.repository), row
        if row != before:
            self._tell(row)

    def update(self, listed: Sequence[KernelRepo]) -> None:
        """Take in the Hub's list, with the verdicts that were kept."""
        for repo in listed:
            new, old = listed_row(repo), self.rows.get(repo.id)
            named = ("trusted", "cached", "revision", "reason", "commit", "variant", "verdict")
            self.put(msgspec.structs.replace(new, **{name: getattr(old, name) for name in named}) if old else new)


def named(listed: list[KernelRepo], text: str) -> list[KernelRepo]:
    """Return those with `text` in their names."""
    return [it for it in listed if text.lower() in it.id.lower()]
