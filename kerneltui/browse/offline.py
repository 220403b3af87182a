"""What loads from the cache alone, where the Hub is not to be asked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from kerneltui.advice.kernel_verdict import Answer, kernel_verdict, with_answer
from kerneltui.browse.records import Cached, KernelRow, RevisionRow
from kerneltui.errors import HubError
from kerneltui.facts.attention import default_branch
from kerneltui.facts.builds import judge_cached
from kerneltui.facts.cached import CachedKernel
from kerneltui.facts.kernel_records import KernelBuild, KernelRevision
from kerneltui.facts.server import Server
from kerneltui.interpreter import Asker


def best_of(held: Sequence[CachedKernel]) -> Cached | None:
    """Return whether one of the commits that the cache holds is whole; None where it holds none."""
    return "whole" if any(it.whole for it in held) else "part" if held else None


def held_commit(held: Sequence[CachedKernel], commit: str) -> Cached | None:
    """Return whether the cache holds a commit whole, in part, or (None) not."""
    return best_of([it for it in held if it.commit == commit])


def build_folder(held: Sequence[CachedKernel], build: KernelBuild) -> Path | None:
    """Return where the cache holds the build that would load, whole; None where it does not."""
    at = next((it for it in held if it.commit == build.commit and build.variant in it.variants), None)
    return Path(at.path) / "build" / str(build.variant) if at and build.variant not in at.broken else None


def offline_row(
    asker: Asker, server: Server, row: KernelRow, held: Sequence[CachedKernel], error: HubError
) -> KernelRow:
    """Return a row with the verdict on what the cache holds, where none was kept of the Hub's.

    In huggingface_hub's offline mode one more answer says whether kernels would load it.
    """
    libraries = server.libraries
    name = row.revision or (default_branch(row.repository, libraries)[0] if libraries else "main")
    at_branch = next((it for it in held if name in it.revisions), None)
    if row.verdict is None and held:
        kept = at_branch or held[0]
        revision = name if at_branch else _name(kept)
        build = judge_cached(asker, row.repository, revision, kept.commit, kept.path, server)
        verdict = kernel_verdict(build, server, trusted=row.trusted)
        row = msgspec.structs.replace(
            row, revision=revision, commit=kept.commit, variant=build.variant, verdict=verdict
        )
    if error.kind != "offline" or row.verdict is None:
        return row
    return msgspec.structs.replace(row, verdict=with_answer(row.verdict, _cache_answer(name, at_branch, held)))


def cached_revisions(
    asker: Asker, server: Server, row: KernelRow, held: Sequence[CachedKernel], revision: str | None
) -> tuple[RevisionRow, ...]:
    """Return the commits that the cache holds, judged; only that of `revision` where one is named."""
    found = []
    for kept in held:
        for name in kept.revisions or (kept.commit,):
            if revision not in (None, name, kept.commit):
                continue
            build = judge_cached(asker, row.repository, name, kept.commit, kept.path, server)
            verdict = with_answer(kernel_verdict(build, server, trusted=row.trusted), _cache_answer(name, kept, held))
            kind = "commit" if name == kept.commit else "branch"
            known = KernelRevision(repository=row.repository, name=name, commit=kept.commit, kind=kind)
            found.append(
                RevisionRow(
                    revision=known, verdict=verdict, build=build, default=name == row.revision, cached=best_of([kept])
                )
            )
    return tuple(found)


def _cache_answer(branch: str, at_branch: CachedKernel | None, held: Sequence[CachedKernel]) -> Answer:
    """Say whether the kernel loads while the Hub is not to be asked."""
    if at_branch and at_branch.whole:
        return Answer(subject="cache", kind="ready", text="it is in the cache, whole")
    if at_branch:
        text = "the cache holds it in part, so it does not load offline: kerneltui fetch brings the rest"
    elif held:
        text = f"the cache holds {', '.join(sorted({_name(it) for it in held}))}, not {branch}"
    else:
        text = "it is not in the cache"
    return Answer(subject="cache", kind="refused", text=text)


def _name(kept: CachedKernel) -> str:
    return next(iter(kept.revisions), kept.commit[:8])
