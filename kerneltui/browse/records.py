"""What the list of kernels and the page of one repository are made of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from kerneltui.advice.catalogue import ROLES, Role, catalogue, role_of
from kerneltui.advice.kernel_verdict import KernelVerdict
from kerneltui.errors import HubError
from kerneltui.facts.kernel_records import KernelBuild, KernelRepo, KernelRevision
from kerneltui.records import Document, Record

# Whether the cache on this disk holds a commit so that it loads offline, or only a part of it.
Cached = Literal["whole", "part"]


class RevisionRow(Record):
    """One revision of a repository judged: its build (None where nobody told), and the verdict.

    `default` tells that the installed transformers takes it when none is named.
    """

    revision: KernelRevision
    verdict: KernelVerdict
    build: KernelBuild | None = None
    default: bool = False
    cached: Cached | None = None


class KernelRow(Record):
    """One repository as the list shows it; None where it is not known.

    `revision` is the branch that loads when none is named, and `reason` why; `commit`, `variant` and `verdict` are
    those of it (`verdict` None: nobody has looked at it yet). `fresh` tells that the Hub said so just now. `features`
    are what it can do for training (see `advice.catalogue.FEATURES`), as `source` told on `source_date`.
    """

    repository: str
    role: Role | None = None
    what: str | None = None
    downloads: int | None = None
    likes: int | None = None
    changed: str | None = None
    gated: bool = False
    trusted: bool | None = None
    cached: Cached | None = None
    revision: str | None = None
    reason: str | None = None
    commit: str | None = None
    variant: str | None = None
    verdict: KernelVerdict | None = None
    fresh: bool = False
    features: dict[str, str | None] = {}
    source: str | None = None
    source_date: str | None = None


class Refusal(Record):
    """What kept the Hub from telling: a `HubError` as a record."""

    kind: str
    title: str
    message: str = ""
    hint: str = ""


class KernelList(Document):
    """The list of kernels, and what kept the Hub from telling all of it."""

    endpoint: str
    repositories: tuple[KernelRow, ...] = ()
    error: Refusal | None = None


class RepositoryView(Document):
    """One repository: its row, its branches and tags, the newest commits of the branch that loads, its card."""

    row: KernelRow
    revisions: tuple[RevisionRow, ...] = ()
    commits: tuple[RevisionRow, ...] = ()
    card: str | None = None


def listed_row(listed: KernelRepo) -> KernelRow:
    """Return the row of a repository from its place in the Hub's list and what public sources tell of it."""
    known = catalogue().get(listed.id)
    return KernelRow(
        repository=listed.id,
        role=role_of(listed.id),
        what=known.what if known else None,
        downloads=listed.downloads,
        likes=listed.likes,
        changed=listed.last_modified,
        gated=bool(listed.gated),
        features=known.features() if known and known.role == "attention" else {},
        source=known.source if known else None,
        source_date=known.date if known else None,
    )


def refusal_of(error: HubError) -> Refusal:
    """Return an error of the Hub as a record."""
    return Refusal(kind=error.kind, title=error.title, message=error.message, hint=error.hint)


def sort_rows(rows: Iterable[KernelRow]) -> list[KernelRow]:
    """Return rows by what they are for, attention first, and then by use."""
    places = {role: place for place, role in enumerate(ROLES)}
    return sorted(
        rows,
        key=lambda row: (places[row.role] if row.role else len(ROLES), -(row.downloads or 0), row.repository.lower()),
    )
