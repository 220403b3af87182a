"""Kernels in the Hub's cache on this disk, and whether kernels would load them without a network.

The layout is huggingface_hub's: `kernels--owner--name/{refs,snapshots,trees}`. Looking is cheap: no file is opened but
references and listings, and the Hub is not asked.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

import msgspec

from kerneltui.facts.kernel_records import is_commit
from kerneltui.records import Record

_PREFIX = "kernels--"


class CachedKernel(Record):
    """One commit of a kernel repository that the cache holds, whole or in part.

    `path` is its folder; `revisions` are the branches and tags that it was fetched as, `variants` the builds that are
    there, `broken` those of them that lack files which the cache lists for them. `missing` is how many files the cache
    lists for the commit without having them, mostly those of other builds: kernels 0.17.2 loads a commit offline only
    where that is 0 (its offline call asks huggingface_hub for every file of the listing), see `make_loadable`.
    """

    repository: str
    commit: str
    path: str
    revisions: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    missing: int = 0

    @property
    def whole(self) -> bool:
        """Whether each build that is there is whole."""
        return bool(self.variants) and not self.broken


def cache_folder(environment: Mapping[str, str] | None = None) -> Path:
    """Return the folder that kernels are cached in: that of kernels (KERNELS_CACHE), else huggingface_hub's.

    `environment` are variables of a run that are not those of this process.
    """
    from huggingface_hub import constants

    given = environment or {}
    if own := given.get("KERNELS_CACHE") or given.get("HF_HUB_CACHE"):
        return Path(own).expanduser()
    if home := given.get("HF_HOME"):
        return Path(home).expanduser() / "hub"
    return Path(os.environ.get("KERNELS_CACHE") or constants.HF_HUB_CACHE)


def cached_kernels(folder: Path | None = None) -> dict[str, list[CachedKernel]]:
    """Return what the cache holds of each kernel repository, by its id; an unreadable folder holds nothing."""
    folder = folder or cache_folder()
    found: dict[str, list[CachedKernel]] = {}
    for path in _folders(folder):
        owner, dashes, name = path.name.removeprefix(_PREFIX).partition("--")
        if path.name.startswith(_PREFIX) and dashes:
            commits = [it for it in _folders(path / "snapshots") if is_commit(it.name)]
            names = _references(path / "refs")
            if kernels := [_kernel(f"{owner}/{name}", path, it, names) for it in commits]:
                found[f"{owner}/{name}"] = kernels
    return found


def _kernel(repository: str, folder: Path, snapshot: Path, names: dict[str, str]) -> CachedKernel:
    variants = [it.name for it in _folders(snapshot / "build") if any(_files(it))]
    missing = _missing(_listing(snapshot), snapshot)
    without = {PurePosixPath(name).parts[1] for name in missing if name.startswith("build/")}
    return CachedKernel(
        repository=repository,
        commit=snapshot.name,
        path=str(snapshot),
        revisions=tuple(sorted(name for name, commit in names.items() if commit == snapshot.name)),
        variants=tuple(variants),
        broken=tuple(name for name in variants if name in without),
        missing=len(missing),
    )


def make_loadable(kernel: CachedKernel) -> None:
    """Let kernels load a commit offline whose builds are whole: take away the listing that names those of others.

    Loading online writes the listing; huggingface_hub makes it anew whenever it needs it. A cache that cannot be
    written stays as it is.
    """
    if kernel.whole and kernel.missing:
        with contextlib.suppress(OSError):
            _listing(Path(kernel.path)).unlink(missing_ok=True)


def _listing(snapshot: Path) -> Path:
    return snapshot.parent.parent / "trees" / f"{snapshot.name}.json"


class _Tree(msgspec.Struct):
    format_version: int
    files: dict[str, msgspec.Raw]


def _missing(listing: Path, snapshot: Path) -> list[str]:
    """Return the files of a commit's listing that are not there; none where there is no listing to hold it against."""
    try:
        tree = msgspec.json.decode(listing.read_bytes(), type=_Tree)
    except (OSError, msgspec.DecodeError):
        return []
    # Bytecode is what kernels never fetches.
    wanted = [
        name for name in tree.files if not name.endswith(".pyc") and "__pycache__" not in PurePosixPath(name).parts
    ]
    return [name for name in wanted if not (snapshot / name).is_file()] if tree.format_version == 1 else []


def _references(folder: Path) -> dict[str, str]:
    """Return the commit of each branch and tag that something was fetched as."""
    found = {}
    with contextlib.suppress(OSError):
        for path in folder.rglob("*"):
            if path.is_file():
                found[path.relative_to(folder).as_posix()] = path.read_text("ascii", "replace").strip()
    return found


def _folders(folder: Path) -> list[Path]:
    with contextlib.suppress(OSError):
        return sorted(it for it in folder.iterdir() if it.is_dir())
    return []


def _files(folder: Path) -> list[Path]:
    with contextlib.suppress(OSError):
        return [it for it in folder.iterdir() if it.is_file()]
    return []
