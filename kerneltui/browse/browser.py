"""Asking the Hub for kernels: kept answers at once, its own as they come.

All methods of `KernelBrowser` block and may be called from any thread; callbacks come from other threads.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence

import msgspec

from kerneltui.advice.catalogue import COMMUNITY
from kerneltui.advice.kernel_verdict import Answer, KernelVerdict, kernel_verdict, no_verdict
from kerneltui.browse.offline import best_of, cached_revisions, held_commit, offline_row
from kerneltui.browse.records import (
    KernelList,
    KernelRow,
    RepositoryView,
    RevisionRow,
    listed_row,
    refusal_of,
    sort_rows,
)
from kerneltui.errors import HubError, KerneltuiError
from kerneltui.facts.attention import default_branch
from kerneltui.facts.builds import judge, judge_commit, local_kernels, system_values
from kerneltui.facts.cached import CachedKernel, cached_kernels
from kerneltui.facts.hub import HOPELESS, Hub, check_repository
from kerneltui.facts.hub_store import FOREVER
from kerneltui.facts.kernel_records import KernelBuild, KernelRepo, KernelRevision, is_commit, version_of
from kerneltui.facts.server import Server
from kerneltui.interpreter import Asker

# For how many seconds a listing, branches and the Hub's trust in a publisher are taken as they were.
FRESH = 600.0
_NO_TIME = 1e-9
# How many of the newest commits of a branch are judged.
_COMMITS = 10

OnRow = Callable[[KernelRow], None]
OnRevision = Callable[[RevisionRow], None]
Stop = Callable[[], bool]


class KernelBrowser:
    """The kernels of one Hub for one server. `elsewhere` tells that the server is another machine, by its report.

    `fresh` is for how many seconds answers of the Hub count; `FRESH` where it is None.
    """

    def __init__(
        self, asker: Asker, hub: Hub, server: Server, *, elsewhere: bool = False, fresh: float | None = None
    ) -> None:
        # Answers are kept in any case, so that they are at hand where the Hub does not answer.
        self._fresh = FRESH if fresh is None else max(fresh, _NO_TIME)
        self._asker = asker
        self._hub = hub
        self._server = server
        self._elsewhere = elsewhere
        self._local = {} if elsewhere else local_kernels(server.environment)

    def rows(
        self,
        author: str | None = COMMUNITY,
        *,
        text: str = "",
        everything: bool = False,
        on_row: OnRow | None = None,
        stop: Stop = lambda: False,
    ) -> KernelList:
        """Return the kernels of a publisher (None: of all) with `text` in their names, those for attention first.

        Those for attention are judged, the others where `everything` is asked for: two requests each, and one for each
        publisher. `on_row` gets each row at once as it was kept, without a request, and again as the Hub tells more.
        When `stop` returns true nothing more is asked. Raises WorkerError; what the Hub refuses is in the answer.
        """
        gather = _Gatherer(on_row)
        self._prepare()
        kept, kept_rows = self._hub.kept(), _kept_list(self._hub, author, text)
        gather.update(kept_rows or [])
        cache = self._cache()
        for listed in kept_rows or ():
            gather.put(self._judged(kept, listed, cache))
        error = None
        try:
            self._hub.check_online()
            found = _named(self._hub.list_kernels(author, keep=self._fresh), text)
        except HubError as failed:
            error = failed
            found = self._without_hub(kept_rows, cache, text, gather, failed)
        else:
            gather.update(found)
            error = self._judge_all(found, cache, everything, gather, stop)
        return KernelList(
            endpoint=self._hub.endpoint,
            repositories=tuple(sort_rows(gather.rows[it.id] for it in found)),
            error=refusal_of(error) if error else None,
        )

    def row(self, repository: str) -> KernelRow:
        """Return the row of one repository, judged with its metadata; for one that is looked at. Raises HubError."""
        listed = KernelRepo(id=check_repository(repository))
        known = [it for it in _kept_list(self._hub, repository.partition("/")[0], "") or () if it.id == repository]
        return self._judged(self._hub, known[0] if known else listed, self._cache(), metadata=True)

    def view(
        self,
        repository: str,
        revision: str | None = None,
        *,
        on_revision: OnRevision | None = None,
        stop: Stop = lambda: False,
    ) -> RepositoryView:
        """Return one repository: its branches and tags with dates, each judged with its metadata, and its card.

        With `revision` (a branch, tag or commit) that one alone, and the newest commits of it instead of those of the
        branch that loads. `on_revision` gets each as it is judged. Where the Hub is not to be asked, what the cache
        holds is shown. Raises HubError, WorkerError, UsageError.
        """
        try:
            self._hub.check_online()
            return self._view(repository, revision, on_revision, stop)
        except HubError as error:
            held = self._cache().get(repository, [])
            if error.kind != "offline" or not held:
                raise
            known = self._judged(self._hub.kept(), KernelRepo(id=repository), {repository: held})
            row = offline_row(self._asker, self._server, known, held, error)
            return RepositoryView(row=row, revisions=cached_revisions(self._asker, self._server, row, held, revision))

    def _view(
        self, repository: str, revision: str | None, on_revision: OnRevision | None, stop: Stop
    ) -> RepositoryView:
        local = repository in self._local
        if revision and not local:
            self._hub.commit_of(repository, revision, keep=self._fresh)  # a revision that is not there is said first
        row = self.row(repository)
        if local:
            return RepositoryView(row=row)
        found = self._hub.revisions(repository, keep=self._fresh)
        named = [self._named_revision(repository, revision, found)] if revision else found
        revisions = self._judge_revisions(named, row, on_revision, stop)
        start = revision or row.commit
        commits = self._hub.commits(repository, start)[:_COMMITS] if start and not stop() else []
        return RepositoryView(
            row=row,
            revisions=tuple(revisions),
            commits=tuple(self._judge_revisions(commits, row, None, stop, metadata=False)),
            card=None if stop() or not start else self._hub.card(repository, start),
        )

    def _prepare(self) -> None:
        """Let the asker import kernels while the Hub answers; tidy what was kept."""

        def ask() -> None:
            self._hub.tidy()
            with contextlib.suppress(KerneltuiError):  # the question that needs it tells
                self._asker.ask("kernels.variants", names=[], system=system_values(self._server))

        threading.Thread(target=ask, daemon=True, name="asker preparation").start()

    def _named_revision(self, repository: str, revision: str, found: Sequence[KernelRevision]) -> KernelRevision:
        known = next((it for it in found if it.name == revision), None)
        commit = self._hub.commit_of(repository, revision, keep=self._fresh)
        kind = "commit" if is_commit(revision) else "branch"
        return known or KernelRevision(repository=repository, name=revision, commit=commit, kind=kind)

    def _judge_revisions(
        self,
        revisions: Sequence[KernelRevision],
        row: KernelRow,
        on_revision: OnRevision | None,
        stop: Stop,
        *,
        metadata: bool = True,
    ) -> list[RevisionRow]:
        cache = self._cache()

        def one(revision: KernelRevision) -> RevisionRow:
            dated = revision if revision.date else self._hub.dated(revision)
            build, verdict = self._verdict(self._hub, revision, row.trusted, metadata=metadata)
            default = revision.name == row.revision and revision.kind == "branch"
            held = held_commit(cache.get(revision.repository, ()), revision.commit)
            made = RevisionRow(revision=dated, verdict=verdict, build=build, default=default, cached=held)
            if on_revision:
                on_revision(made)
            return made

        wanted = [it for it in revisions if not stop()]
        made = self._hub.each(one, wanted)
        failed = [it for it in made if isinstance(it, HubError)]
        if failed:
            raise failed[0]
        return [it for it in made if isinstance(it, RevisionRow)]

    def _judge_all(
        self, listed: Sequence[KernelRepo], cache: dict[str, list[CachedKernel]], everything: bool, gather: _Gatherer,
        stop: Stop,
    ) -> HubError | None:  # fmt: skip
        """Judge those for attention, then the others where they are wanted; return what made an end of it."""
        order = {row.repository: place for place, row in enumerate(sort_rows(gather.rows.values()))}
        wanted = [it for it in listed if everything or gather.rows[it.id].role == "attention"]

        def one(repo: KernelRepo) -> None:
            if not stop():
                self._hub.check_budget()
                gather.put(self._judged(self._hub, repo, cache, strict=True))

        answers = self._hub.each(one, sorted(wanted, key=lambda it: order[it.id]))
        return next((it for it in answers if isinstance(it, HubError)), None)

    def _judged(
        self,
        hub: Hub,
        listed: KernelRepo,
        cache: dict[str, list[CachedKernel]],
        *,
        metadata: bool = False,
        strict: bool = False,
    ) -> KernelRow:
        """Return the row with the verdict on what loads when no revision is named.

        `strict` raises where the Hub cannot be asked about any repository; else the row has no verdict then.
        """
        row, held = listed_row(listed), cache.get(listed.id, [])
        row = msgspec.structs.replace(row, cached=best_of(held), fresh=hub is self._hub)
        try:
            row = msgspec.structs.replace(row, trusted=self._trusted(hub, listed.id))
            if listed.id in self._local:
                return self._with_verdict(row, self._local_build(listed.id), "it comes from LOCAL_KERNELS")
            branch, reason = self._branch(hub, listed.id)
            row = msgspec.structs.replace(row, revision=branch.name, reason=reason, commit=branch.commit or None)
            build, verdict = self._verdict(hub, branch, row.trusted, metadata=metadata)
        except HubError as error:
            if error.kind in HOPELESS and (strict or metadata):
                raise
            return row if error.kind in (*HOPELESS, "not_asked") else _with(row, no_verdict(error))
        return _with(row, verdict, build)

    def _verdict(
        self, hub: Hub, revision: KernelRevision, trusted: bool | None, *, metadata: bool
    ) -> tuple[KernelBuild | None, KernelVerdict]:
        """Return the build of a revision and the verdict on it; raises HubError where nobody can be asked."""
        repo, name, commit = revision.repository, revision.name, revision.commit
        if not commit:
            text = f"transformers takes branch {name}, which it does not have: name one"
            return None, KernelVerdict(kind="refused", reason=text, answers=(_variant(text),))
        try:
            build = judge_commit(
                self._asker, hub, repo, name, commit, self._server, elsewhere=self._elsewhere, metadata=metadata
            )
        except HubError as error:
            if error.kind in (*HOPELESS, "not_asked"):
                raise
            return None, no_verdict(error)
        return build, kernel_verdict(build, self._server, trusted=trusted)

    def _branch(self, hub: Hub, repository: str) -> tuple[KernelRevision, str]:
        """Return the branch that loads when none is named (its commit empty where it is not there), and why."""
        revisions = hub.revisions(repository, keep=self._fresh)
        libraries = self._server.libraries
        versions = [it for it in revisions if version_of(it) is not None]
        if listed_row(KernelRepo(id=repository)).role != "attention" or libraries is None:
            newest = [*versions, *revisions]
            reason = "its newest version" if versions else "it has no version branch"
            return (newest or [KernelRevision(repository=repository, name="main", commit="")])[0], reason
        name, reason = default_branch(repository, libraries)
        found = next((it for it in versions if it.name == name), None)
        return found or KernelRevision(repository=repository, name=name, commit=""), reason

    def _local_build(self, repository: str) -> KernelBuild:
        return judge(self._asker, self._hub, repository, "", self._server)

    def _with_verdict(self, row: KernelRow, build: KernelBuild, reason: str) -> KernelRow:
        verdict = kernel_verdict(build, self._server, trusted=row.trusted)
        return _with(msgspec.structs.replace(row, commit=build.commit, reason=reason), verdict, build)

    def _trusted(self, hub: Hub, repository: str) -> bool | None:
        try:
            return hub.is_trusted(repository.partition("/")[0], keep=self._fresh)
        except HubError:
            return None

    def _without_hub(
        self, kept: list[KernelRepo] | None, cache: dict[str, list[CachedKernel]], text: str, gather: _Gatherer,
        error: HubError,
    ) -> list[KernelRepo]:  # fmt: skip
        """Show what was kept of the Hub's list and what the cache holds; return all of it."""
        found = {it.id: it for it in kept or ()}
        for name in cache:
            if text.lower() in name.lower():
                found.setdefault(name, KernelRepo(id=name))
        for listed in found.values():
            row = gather.rows.get(listed.id) or self._judged(self._hub.kept(), listed, cache)
            gather.put(offline_row(self._asker, self._server, row, cache.get(listed.id, []), error))
        return list(found.values())

    def _cache(self) -> dict[str, list[CachedKernel]]:
        return {} if self._elsewhere else cached_kernels()


def kept_rows(hub: Hub, author: str | None, text: str = "") -> list[KernelRow]:
    """Return the rows of the list as it was kept from earlier, without verdicts and without a request."""
    return [listed_row(it) for it in _kept_list(hub, author, text) or ()]


def _kept_list(hub: Hub, author: str | None, text: str) -> list[KernelRepo] | None:
    try:
        return _named(hub.kept().list_kernels(author, keep=FOREVER), text)
    except HubError:
        return None


class _Gatherer:
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


def _named(listed: list[KernelRepo], text: str) -> list[KernelRepo]:
    return [it for it in listed if text.lower() in it.id.lower()]


def _with(row: KernelRow, verdict: KernelVerdict, build: KernelBuild | None = None) -> KernelRow:
    return msgspec.structs.replace(row, verdict=verdict, variant=build.variant if build else None)


def _variant(text: str) -> Answer:
    return Answer(subject="variant", kind="refused", text=text)
