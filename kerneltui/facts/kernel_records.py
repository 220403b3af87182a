"""What a kernel repository is made of: revisions, builds for kinds of machines, and what each build tells of itself."""

from __future__ import annotations

import re
from typing import Literal

from kerneltui.records import Record

_COMMIT = re.compile(r"[0-9a-f]{40}")
_VERSION_BRANCH = re.compile(r"v(\d+)")


class KernelRepo(Record):
    """A kernel repository as the Hub's listing tells of it; everything but `id` may be unknown."""

    id: str
    sha: str | None = None
    last_modified: str | None = None
    downloads: int | None = None
    likes: int | None = None
    gated: str | bool | None = None


class KernelRevision(Record):
    """A branch or tag of a kernel repository and the commit (40 hex digits) that it points to.

    `kind` is "branch", "tag", or "commit" (then `name` is the commit itself). `date` (ISO 8601) and `title`
    are those of the commit, None where they were not asked for.
    """

    repository: str
    name: str
    commit: str
    kind: str = "branch"
    date: str | None = None
    title: str | None = None


class VariantDecision(Record):
    """What kernels itself decided on one build variant for a system; `reason` is None when it is accepted."""

    variant: str
    reason: str | None = None

    @property
    def accepted(self) -> bool:
        """Whether the variant fits the system."""
        return self.reason is None


class KernelMetadata(Record):
    """A variant's metadata.json as kernels reads it; `error` says why it could not be read.

    `python_depends` are the names that kernels knows them by, `missing_depends` the packages (by the name
    that pip installs) that the training interpreter lacks for them. `kernel_depends` are other kernels, as
    "repository@revision". `arch_error` is kernels' reason when the build does not support the GPU that was
    asked about, `load_error` when it refuses the build for another reason (it needs a newer kernels, or a
    dependency that kernels does not know).
    """

    name: str | None = None
    id: str | None = None
    version: int | None = None
    license: str | None = None
    python_depends: tuple[str, ...] = ()
    missing_depends: tuple[str, ...] = ()
    kernel_depends: tuple[str, ...] = ()
    kernels_minimum: str | None = None
    backend: str | None = None
    archs: tuple[str, ...] = ()
    arch_error: str | None = None
    load_error: str | None = None
    error: str | None = None


class KernelSignature(Record):
    """What kernels' own verification says of a build that is on this disk; `reason` where it is not simply so.

    "unchecked" is a signature that could not be looked at, since sigstore's keys come from a network.
    """

    state: Literal["signed", "unsigned", "invalid", "unchecked"]
    reason: str | None = None


class KernelBuild(Record):
    """One revision of a repository judged for one system: what would load, and every variant's decision.

    `variant` is the one that kernels would take, None when none fits. `source` is "hub", "cache" where the builds
    are those that the cache on this disk holds, or "local" for a kernel that comes through LOCAL_KERNELS; then `commit`
    is "local" and `content_hash` (SHA-256) tells the content.
    """

    repository: str
    revision: str
    commit: str
    decisions: tuple[VariantDecision, ...] = ()
    variant: str | None = None
    metadata: KernelMetadata | None = None
    source: str = "hub"
    content_hash: str | None = None


def is_commit(revision: str) -> bool:
    """Return whether a revision is a full commit id."""
    return _COMMIT.fullmatch(revision) is not None


def version_of(revision: KernelRevision) -> int | None:
    """Return the number of a version branch, None for another branch and for a tag; kernels ignores those."""
    version = _VERSION_BRANCH.fullmatch(revision.name)
    return int(version[1]) if version and revision.kind == "branch" else None


def newest_first(revision: KernelRevision) -> tuple[int, int, str]:
    """Return a key that sorts version branches first, the highest version before others, and tags last."""
    version = version_of(revision)
    if version is not None:
        return 0, -version, revision.name
    return (1 if revision.kind == "branch" else 2), 0, revision.name
