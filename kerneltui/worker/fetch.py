"""Bringing what a run needs from the Hub into the cache: kernels, models, data sets. Runs in a process of its own.

A part is `{"kind": "kernel" | "model" | "data", "name", "revision", "variant", "source"}`. What is there already is not
fetched again, and what is interrupted goes on where it stopped: huggingface_hub sees to both.
"""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .protocol import part as tell
from .protocol import serve
from .trl_adapter import directory

# What transformers reads of a model's repository: nothing in folders, and of the weights one kind.
CONFIGURATION = (".json", ".txt", ".model", ".jinja", ".tiktoken", ".py")
_WEIGHTS = (".safetensors", ".bin")
# Seconds between two looks at how much has come.
_LOOK = 0.5


def size(part: dict[str, Any]) -> dict[str, Any]:
    """Return what fetching a part would bring: "commit", "files", "bytes" still to come, and "free" bytes of the disk.

    Of a data set the size is not known before it is read: "bytes" is None.
    """
    folder = _cache(part)
    free = _free(folder)
    if part["kind"] == "data":
        return {"commit": None, "files": None, "bytes": None, "free": free}
    commit, files = _files(part)
    missing = [name for name in files if not _is_cached(part, name, commit)]
    return {"commit": commit, "files": len(files), "bytes": sum(files[name] for name in missing), "free": free}


def get(part: dict[str, Any], cwd: str) -> dict[str, Any]:
    """Fetch a part and return its "commit" and "path"; tells the bytes that have come as the part "bytes"."""
    if part["kind"] == "data":
        return _get_data(part, cwd)
    from huggingface_hub import snapshot_download

    _, files = _files(part)
    folder = _cache(part) / f"{part['kind']}s--{part['name'].replace('/', '--')}"
    with _watched(folder / "blobs"):
        path = snapshot_download(
            part["name"],
            repo_type=part["kind"],
            revision=part["revision"],
            cache_dir=str(_cache(part)),
            allow_patterns=[glob.escape(name) for name in files],
        )
    found = Path(path)
    if part["kind"] == "kernel":
        # kernels 0.17.2 asks huggingface_hub offline for all files of the commit, and its listing names those of the
        # other builds, which nobody needs; without the listing what is there counts as whole.
        (found.parent.parent / "trees" / f"{found.name}.json").unlink(missing_ok=True)
    return {"commit": found.name, "path": path}


def _get_data(part: dict[str, Any], cwd: str) -> dict[str, Any]:
    """Read a data set as TRL will, so that `datasets` keeps it; its own cache serves the run."""
    import datasets

    source = {name: value for name, value in part["source"].items() if name in ("name", "data_dir", "data_files")}
    with directory(cwd):
        datasets.load_dataset(part["name"], **source)
    return {"commit": None, "path": str(datasets.config.HF_DATASETS_CACHE)}


def _files(part: dict[str, Any]) -> tuple[str, dict[str, int]]:
    """Return the commit and the sizes of the files that a run reads of it, by their paths."""
    from huggingface_hub import HfApi
    from huggingface_hub.hf_api import RepoFile

    api, kind = HfApi(), part["kind"]
    commit = str(api.repo_info(part["name"], repo_type=kind, revision=part["revision"]).sha)
    folder = f"build/{part['variant']}" if kind == "kernel" else None
    entries = api.list_repo_tree(part["name"], folder, repo_type=kind, revision=commit, recursive=folder is not None)
    files = {entry.path: entry.size for entry in entries if isinstance(entry, RepoFile)}
    if kind == "kernel":
        return commit, {name: size for name, size in files.items() if not name.endswith(".pyc")}
    return commit, _of_model(files)


def _of_model(files: dict[str, int]) -> dict[str, int]:
    """Return the files of a model that transformers reads; weights in the first kind that is there."""
    kind = next((kind for kind in _WEIGHTS if any(name.endswith(kind) for name in files)), "")
    wanted = (*CONFIGURATION, kind) if kind else CONFIGURATION
    other = tuple(f"{end}.index.json" for end in _WEIGHTS if end != kind)
    return {name: size for name, size in files.items() if name.endswith(wanted) and not name.endswith(other)}


def _is_cached(part: dict[str, Any], name: str, commit: str) -> bool:
    folder = f"{part['kind']}s--{part['name'].replace('/', '--')}"
    return (_cache(part) / folder / "snapshots" / commit / name).is_file()


def _cache(part: dict[str, Any]) -> Path:
    """Return the folder that the libraries will look in: kernels has a variable of its own."""
    from huggingface_hub import constants

    own = os.environ.get("KERNELS_CACHE") if part["kind"] == "kernel" else None
    return Path(own or constants.HF_HUB_CACHE).expanduser()


def _free(folder: Path) -> int | None:
    """Return how many bytes can still be written where the cache is or will be."""
    with contextlib.suppress(OSError):
        there = next(path for path in (folder, *folder.parents) if path.is_dir())
        return shutil.disk_usage(there).free
    return None


@contextlib.contextmanager
def _watched(blobs: Path) -> Iterator[None]:
    """Tell how many bytes have come into a folder, as often as they can be seen."""
    before, over = _bytes(blobs), threading.Event()

    def look() -> None:
        while not over.wait(_LOOK):
            tell("bytes", max(0, _bytes(blobs) - before))

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        tell("bytes", max(0, _bytes(blobs) - before))


def _bytes(folder: Path) -> int:
    total = 0
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            with contextlib.suppress(OSError):  # an unfinished file gets its name when it is whole
                total += entry.stat().st_size
    return total


def main() -> None:
    """Answer the questions of `kerneltui.fetch`."""
    serve({"fetch.size": size, "fetch.get": get})
