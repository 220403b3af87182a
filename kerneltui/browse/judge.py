"""The verdict on a repository of the Hub's list, and on each of its revisions, for one server."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kerneltui.advice.kernel_verdict import Answer, KernelVerdict, kernel_verdict, no_verdict
from kerneltui.browse.offline import best_of
from kerneltui.browse.records import KernelRow, listed_row
from kerneltui.errors import HubError
from kerneltui.facts.attention import default_branch
from kerneltui.facts.builds import judge, judge_commit, local_kernels
from kerneltui.facts.cached import CachedKernel
from kerneltui.facts.hub import HOPELESS, Hub
from kerneltui.facts.kernel_records import KernelBuild, KernelRepo, KernelRevision, version_of
from kerneltui.facts.server import Server
from kerneltui.interpreter import Asker


class Judge:
    """Judges for one server by what one Hub tells; answers count for `fresh` seconds.

    `local` are the kernels that come from a folder (LOCAL_KERNELS).
    """

    def __init__(self, asker: Asker, hub: Hub, server: Server, *, elsewhere: bool, fresh: float) -> None:
        self._asker = asker
        self._hub = hub
        self._server = server
        self._elsewhere = elsewhere
        self._fresh = fresh
        self.local = {} if elsewhere else local_kernels(server.environment)

    def row(
        self,
        listed: KernelRepo,
        held: Sequence[CachedKernel],
        *,
        kept: bool = False,
        metadata: bool = False,
        strict: bool = False,
    ) -> KernelRow:
        """Return the row with the verdict on what loads when no revision is named; `held` is what the cache has of it.

        `kept` asks the Hub for nothing. `strict` raises where the Hub cannot be asked about any repository; else the
        row has no verdict then.
        """
        hub = self._hub.kept() if kept else self._hub
        row = msgspec.structs.replace(listed_row(listed), cached=best_of(held), fresh=not kept)
        try:
            row = msgspec.structs.replace(row, trusted=self._trusted(hub, listed.id))
            if listed.id in self.local:
                return self._with_verdict(row, self._local_build(listed.id), "it comes from LOCAL_KERNELS")
            branch, reason = self._branch(hub, listed.id)
            row = msgspec.structs.replace(row, revision=branch.name, reason=reason, commit=branch.commit or None)
            build, verdict = self._verdict(hub, branch, row.trusted, metadata=metadata)
        except HubError as error:
            if error.kind in HOPELESS and (strict or metadata):
                raise
            return row if error.kind in (*HOPELESS, "not_asked") else _with(row, no_verdict(error))
        return _with(row, verdict, build)

    def revision(
        self, revision: KernelRevision, trusted: bool | None, *, metadata: bool
    ) -> tuple[KernelBuild | None, KernelVerdict]:
        """Return the build of a revision and the verdict on it; raises HubError where nobody can be asked."""
        return self._verdict(self._hub, revision, trusted, metadata=metadata)

    def _verdict(
        self, hub: Hub, revision: KernelRevision, trusted: bool | None, *, metadata: bool
    ) -> tuple[KernelBuild | None, KernelVerdict]:
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


def _with(row: KernelRow, verdict: KernelVerdict, build: KernelBuild | None = None) -> KernelRow:
    return msgspec.structs.replace(row, verdict=verdict, variant=build.variant if build else None)


def _variant(text: str) -> Answer:
    return Answer(subject="variant", kind="refused", text=text)
