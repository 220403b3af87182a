"""Kernel repositories on the Hugging Face Hub: listing, revisions, variants, metadata.

Names that come from the Hub are kept as they are; `kerneltui.text.plain` makes them fit to be shown.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import quote

import msgspec

from kerneltui.errors import HubError, UsageError
from kerneltui.facts.environment import is_offline
from kerneltui.facts.hub_errors import Reply, Subject, garbage, offline
from kerneltui.facts.hub_http import MAX_REQUESTS, HubHttp, utils
from kerneltui.facts.hub_store import FOREVER, ReplyStore
from kerneltui.facts.kernel_records import KernelRepo, KernelRevision, is_commit, newest_first

T = TypeVar("T")
R = TypeVar("R")

# Errors after which asking on is useless, or makes things worse.
HOPELESS = ("rate_limited", "unreachable", "offline", "bad_token")


class _Ref(msgspec.Struct, rename="camel"):
    name: str
    target_commit: str


class _Refs(msgspec.Struct):
    branches: list[_Ref]
    tags: list[_Ref]


class _Info(msgspec.Struct):
    sha: str


class _Commit(msgspec.Struct):
    id: str
    title: str
    date: str


class Hub:
    """The Hub's kernel repositories. Every method raises HubError; it may be shared between threads.

    `endpoint` and `token` are huggingface_hub's own where they are None. `timeout` is for one answer, in
    seconds. `folder` is where answers are kept between calls, None: as long as this lives. What a commit holds is
    asked for once; `keep` is how old, in seconds, another answer may be.
    `offline` asks nothing; without it that is huggingface_hub's to say.
    """

    def __init__(
        self,
        endpoint: str | None = None,
        *,
        token: str | None = None,
        timeout: float = 10,
        folder: Path | None = None,
        offline: bool = False,
    ) -> None:
        self._http = HubHttp(endpoint, token, timeout, ReplyStore(folder), offline=offline)
        self._ask = True

    @classmethod
    def of(cls, environment: Mapping[str, str], *, endpoint: str | None = None, folder: Path | None = None) -> Hub:
        """Return the Hub that a process with these variables beside ours would ask, `endpoint` where they name none."""
        return cls(
            environment.get("HF_ENDPOINT") or endpoint,
            token=environment.get("HF_TOKEN"),
            folder=folder,
            offline=is_offline(environment),
        )

    @property
    def endpoint(self) -> str:
        """The Hub's address."""
        return self._http.endpoint

    def kept(self) -> Hub:
        """Return the same Hub without asking it: every answer is a kept one, however old, or HubError (not_asked)."""
        quiet = copy.copy(self)
        quiet._ask = False
        return quiet

    def check_online(self) -> None:
        """Raise HubError (offline) where huggingface_hub is told not to ask the Hub, whatever was kept."""
        from huggingface_hub import constants

        if constants.HF_HUB_OFFLINE:
            raise offline()

    def tidy(self) -> None:
        """Remove answers from the disk that nobody has read for two months."""
        self._http.store.tidy()

    def check_budget(self) -> None:
        """Raise HubError (rate_limited) where what the Hub still allows is for a run. Ask before looking around."""
        if self._ask:
            self._http.budget.check(self.endpoint)

    def list_kernels(self, author: str | None = "kernels-community", *, keep: float = 0) -> list[KernelRepo]:
        """Return the kernel repositories of an organization or user, None: of all, in the Hub's order."""
        params = {"author": author, "limit": 1000} if author else {"limit": 1000}
        pages = self._http.pages("/api/kernels", Subject(), params, keep=keep, ask=self._ask)
        return [self._repo(item) for page in pages for item in page]

    def names(self, kind: Literal["models", "datasets"], start: str, *, keep: float = 3600) -> list[str]:
        """Return the models or data sets whose names begin with `start` (owner/…), the most downloaded first."""
        owner, _, name = start.partition("/")
        params = {"author": owner, "search": name, "sort": "downloads", "limit": 20}
        page = next(iter(self._http.pages(f"/api/{kind}", Subject(), params, keep=keep, ask=self._ask)), [])
        return [it["id"] for it in page if isinstance(it.get("id"), str) and it["id"].startswith(start)]

    def revisions(self, repo: str, *, dates: bool = False, keep: float = 0) -> list[KernelRevision]:
        """Return version branches (newest first), then other branches, then tags.

        `dates` also asks for the date and title of each commit, one request for each.
        """
        found = self._refs(Subject(repo), keep)
        return self.side_by_side(self.dated, found) if dates else found

    def commits(self, repo: str, revision: str) -> list[KernelRevision]:
        """Return the newest commits of `revision` (the first page of what the Hub tells), newest first."""
        keep = FOREVER if is_commit(revision) else 0
        reply = self._get(_api(repo, "commits", revision), Subject(repo, revision), list[_Commit], keep)
        commits: list[_Commit] = self._http.decode(reply, list[_Commit])
        return [
            KernelRevision(repository=repo, name=it.id, commit=it.id, kind="commit", date=it.date, title=it.title)
            for it in commits
        ]

    def commit_of(self, repo: str, revision: str, *, keep: float = 0) -> str:
        """Return the commit (40 hex digits) that a branch, tag or commit stands for; of a commit nobody is asked."""
        if is_commit(revision):
            return revision
        names = (revision, revision.removeprefix("refs/heads/"), revision.removeprefix("refs/tags/"))
        refs = self._refs(Subject(repo, revision), keep)
        if known := next((ref.commit for ref in refs if ref.name in names), None):
            return known
        reply = self._get(_api(repo, "revision", revision), Subject(repo, revision), _Info, keep)
        info: _Info = self._http.decode(reply, _Info)
        if not is_commit(info.sha):
            raise self._http.garbage(reply, "its sha is not a commit")
        return info.sha

    def variants(self, repo: str, revision: str, *, called: str | None = None) -> list[str]:
        """Return the names of the folders under build/, sorted; those of a commit are asked for once.

        `called` is what an error calls the revision, where the person named a branch and this is its commit.
        """
        subject = Subject(repo, called or revision)
        params = {"recursive": "false", "expand": "false"}
        path, keep = _api(repo, "tree", revision) + "/build", FOREVER if is_commit(revision) else 0
        pages = self._http.pages(path, subject, params, keep=keep, ask=self._ask)
        entries = [entry for page in pages for entry in page if entry.get("type") == "directory"]
        return sorted(str(entry.get("path", "")).rpartition("/")[2] for entry in entries)

    def metadata(self, repo: str, revision: str, variant: str) -> bytes:
        """Return a variant's metadata.json as it is on the Hub; that of a commit is asked for once."""
        path = f"build/{_quoted(variant)}/metadata.json"
        subject = Subject(repo, revision, missing="no_metadata", variant=variant)
        return self._file(repo, revision, path, subject)

    def card(self, repo: str, revision: str) -> str:
        """Return the text of a repository's README.md, an empty one where it has none."""
        try:
            text = self._file(repo, revision, "README.md", Subject(repo, revision))
        except HubError as error:
            if error.kind == "no_build":  # what is missing is the file
                return ""
            raise
        return text.decode("utf-8", "replace")

    def is_trusted(self, publisher: str, *, keep: float = 0) -> bool:
        """Return whether the Hub calls an organization a trusted kernel publisher; a user is none.

        kernels loads from no other without `trust_remote_code` (transformers: `allow_all_kernels`).
        """
        try:
            reply = self._get(f"/api/organizations/{_quoted(publisher)}/overview", Subject(), dict[str, Any], keep)
        except HubError as error:
            if error.kind == "not_found":
                return False
            raise
        return self._http.decode(reply, dict[str, Any]).get("trustedKernelPublisher") is True

    def builds_side_by_side(
        self,
        wanted: Iterable[tuple[str, str]],
        *,
        on_each: Callable[[tuple[str, str], list[str] | HubError], None] | None = None,
    ) -> dict[tuple[str, str], list[str] | HubError]:
        """Return `variants` of many (repository, revision) pairs, or the error in its place, 16 at a time.

        `on_each` is called from other threads as soon as one is known. When the Hub is out of reach or
        refuses more requests, those that were not yet sent get the same error.
        """
        pairs = list(dict.fromkeys(wanted))
        return dict(zip(pairs, self.each(lambda pair: self.variants(*pair), pairs, on_each=on_each), strict=True))

    def each(
        self,
        ask: Callable[[T], R],
        wanted: list[T],
        *,
        on_each: Callable[[T, R | HubError], None] | None = None,
    ) -> list[R | HubError]:
        """Return what `ask` gives for each, or its error in the place; see `builds_side_by_side`."""
        over: list[HubError] = []

        def one(item: T) -> R | HubError:
            try:
                found: R | HubError = over[0] if over else ask(item)
            except HubError as error:
                if error.kind in HOPELESS:
                    over.append(error)
                found = error
            if on_each:
                on_each(item, found)
            return found

        return self.side_by_side(one, wanted)

    def side_by_side(self, ask: Callable[[T], R], wanted: list[T]) -> list[R]:
        """Return what `ask` gives for each, asked from as many threads as the Hub gets requests at once."""
        with ThreadPoolExecutor(MAX_REQUESTS, thread_name_prefix="hub") as pool:
            return list(pool.map(ask, wanted))

    def _get(self, path: str, subject: Subject, kind: Any, keep: float) -> Reply:
        return self._http.get(path, subject, kind=kind, keep=keep, ask=self._ask)

    def _refs(self, subject: Subject, keep: float) -> list[KernelRevision]:
        repo = str(subject.repository)
        reply = self._get(_api(repo) + "/refs", subject, _Refs, keep)
        refs: _Refs = self._http.decode(reply, _Refs)
        if not all(is_commit(ref.target_commit) for ref in (*refs.branches, *refs.tags)):
            raise self._http.garbage(reply, "a targetCommit is not a commit")
        found = [
            KernelRevision(repository=repo, name=ref.name, commit=ref.target_commit, kind=kind)
            for kind, refs_of_kind in (("branch", refs.branches), ("tag", refs.tags))
            for ref in refs_of_kind
        ]
        found.sort(key=newest_first)
        return found

    def _file(self, repo: str, revision: str, path: str, subject: Subject) -> bytes:
        keep = FOREVER if is_commit(revision) else 0
        url = f"/kernels/{check_repository(repo)}/resolve/{_quoted(revision)}/{path}"
        return self._get(url, subject, Any, keep).body

    def dated(self, revision: KernelRevision) -> KernelRevision:
        """Return `revision` with the date and title of its commit."""
        newest = next(iter(self.commits(revision.repository, revision.commit)), revision)
        return msgspec.structs.replace(revision, date=newest.date, title=newest.title)

    def _repo(self, item: dict[str, Any]) -> KernelRepo:
        """Return a listed repository; `id` alone is sure, a value of an unexpected type counts as unknown."""
        if not isinstance(item.get("id"), str):
            raise garbage(self.endpoint, "/api/kernels", "a repository without an id")
        return KernelRepo(
            id=item["id"],
            sha=_typed(item, "sha", str),
            last_modified=_typed(item, "lastModified", str),
            downloads=_typed(item, "downloads", int),
            likes=_typed(item, "likes", int),
            gated=_typed(item, "gated", (str, bool)),
        )


def check_repository(repo: str) -> str:
    """Return `repo`; raises UsageError when it cannot be the name of a kernel repository."""
    try:
        utils().validate_repo_id(repo)
        why = "" if "/" in repo else "The owner is missing."
    except ValueError as error:
        why = str(error)
    if why:
        hint = "Write owner/name, such as kernels-community/flash-attn2."
        raise UsageError(f"{repo!r} cannot be a kernel repository", why, hint)
    return repo


def _quoted(text: str) -> str:
    return quote(text, safe="")


def _api(repo: str, endpoint: str = "", revision: str = "") -> str:
    path = f"/api/kernels/{check_repository(repo)}"
    return f"{path}/{endpoint}/{_quoted(revision)}" if endpoint else path


def _typed(item: dict[str, Any], key: str, kind: Any) -> Any:
    value = item.get(key)
    return value if isinstance(value, kind) else None
