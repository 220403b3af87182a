"""Asking the Hub for kernels: kept answers at once, its own as they come.

All methods of `KernelBrowser` block and may be called from any thread; callbacks come from other threads.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence

from kerneltui.advice.catalogue import COMMUNITY
from kerneltui.advice.kernel_verdict import signature_answer, with_answer
from kerneltui.browse.gather import Gatherer, OnRow, kept_list, named
from kerneltui.browse.judge import Judge
from kerneltui.browse.offline import build_folder, cached_revisions, held_commit, offline_row
from kerneltui.browse.records import (
    KernelList,
    KernelRow,
    RepositoryView,
    RevisionRow,
    refusal_of,
    sort_rows,
)
from kerneltui.errors import HubError, KerneltuiError
from kerneltui.facts.builds import read_signature, system_values
from kerneltui.facts.cached import CachedKernel, cached_kernels
from kerneltui.facts.hub import Hub, check_repository
from kerneltui.facts.kernel_records import KernelRepo, KernelRevision, is_commit
from kerneltui.facts.server import Server
from kerneltui.interpreter import Asker

# For how many seconds a listing, branches and the Hub's trust in a publisher are taken as they were.
FRESH = 600.0
_NO_TIME = 1e-9
# How many of the newest commits of a branch are judged.
_COMMITS = 10

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
        self._judge = Judge(asker, hub, server, elsewhere=elsewhere, fresh=self._fresh)

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
        gather = Gatherer(on_row)
        self._prepare()
        kept = kept_list(self._hub, author, text)
        gather.update(kept or [])
        cache = self._cache()
        for listed in kept or ():
            gather.put(self._judge.row(listed, cache.get(listed.id, ()), kept=True))
        error = None
        try:
            self._hub.check_online()
            found = named(self._hub.list_kernels(author, keep=self._fresh), text)
        except HubError as failed:
            error = failed
            found = self._without_hub(kept, cache, text, gather, failed)
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
        known = [it for it in kept_list(self._hub, repository.partition("/")[0], "") or () if it.id == repository]
        held = self._cache().get(repository, ())
        return self._judge.row(known[0] if known else listed, held, metadata=True)

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
            known = self._judge.row(KernelRepo(id=repository), held, kept=True)
            row = offline_row(self._asker, self._server, known, held, error)
            return RepositoryView(row=row, revisions=cached_revisions(self._asker, self._server, row, held, revision))

    def _view(
        self, repository: str, revision: str | None, on_revision: OnRevision | None, stop: Stop
    ) -> RepositoryView:
        local = repository in self._judge.local
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
            build, verdict = self._judge.revision(revision, row.trusted, metadata=metadata)
            default = revision.name == row.revision and revision.kind == "branch"
            copies = cache.get(revision.repository, ())
            held = held_commit(copies, revision.commit)
            if metadata and build and (folder := build_folder(copies, build)):
                verdict = with_answer(verdict, signature_answer(read_signature(self._asker, folder)))
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
        self, listed: Sequence[KernelRepo], cache: dict[str, list[CachedKernel]], everything: bool, gather: Gatherer,
        stop: Stop,
    ) -> HubError | None:  # fmt: skip
        """Judge those for attention, then the others where they are wanted; return what made an end of it."""
        order = {row.repository: place for place, row in enumerate(sort_rows(gather.rows.values()))}
        wanted = [it for it in listed if everything or gather.rows[it.id].role == "attention"]

        def one(repo: KernelRepo) -> None:
            if not stop():
                self._hub.check_budget()
                gather.put(self._judge.row(repo, cache.get(repo.id, ()), strict=True))

        answers = self._hub.each(one, sorted(wanted, key=lambda it: order[it.id]))
        return next((it for it in answers if isinstance(it, HubError)), None)

    def _without_hub(
        self, kept: list[KernelRepo] | None, cache: dict[str, list[CachedKernel]], text: str, gather: Gatherer,
        error: HubError,
    ) -> list[KernelRepo]:  # fmt: skip
        """Show what was kept of the Hub's list and what the cache holds; return all of it."""
        found = {it.id: it for it in kept or ()}
        for name in cache:
            if text.lower() in name.lower():
                found.setdefault(name, KernelRepo(id=name))
        for listed in found.values():
            row = gather.rows.get(listed.id) or self._judge.row(listed, cache.get(listed.id, ()), kept=True)
            gather.put(offline_row(self._asker, self._server, row, cache.get(listed.id, []), error))
        return list(found.values())

    def _cache(self) -> dict[str, list[CachedKernel]]:
        return {} if self._elsewhere else cached_kernels()
