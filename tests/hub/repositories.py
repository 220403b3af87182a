"""What the loopback Hub holds: the kernel repositories of `kernels_community.json`, with files made for them.

Branches, commits and variants there are facts, or marked `synthetic` with the `invented` fields named. The
content of every variant is made here: metadata.json in the shape that kernels reads, and Python that either
is the test kernel (branches that `serves` attention, whatever their variant, since it runs anywhere) or
refuses to be imported.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
import platform
import re
import runpy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
METADATA = HERE.parent / "data" / "metadata"

Files = dict[str, bytes]


@dataclass(frozen=True)
class Commit:
    """A commit of a repository; `date` is a day, `files` maps paths to contents."""

    id: str
    title: str
    date: str
    files: Files


@dataclass
class Repository:
    """A repository of the type "kernel", "model" or "dataset"; a branch lists its commits, newest first."""

    type: str
    id: str
    branches: dict[str, list[Commit]] = field(default_factory=dict)
    tags: dict[str, Commit] = field(default_factory=dict)
    likes: int = 0
    downloads: int = 0
    gated: str | bool = False
    private: bool = False

    def find(self, revision: str) -> Commit | None:
        """Return the commit of a branch, tag, full reference or full commit id, as the Hub resolves them."""
        name = revision.removeprefix("refs/heads/").removeprefix("refs/tags/")
        if name in self.branches:
            return self.branches[name][0]
        if name in self.tags:
            return self.tags[name]
        return next((commit for history in self.branches.values() for commit in history if commit.id == name), None)

    def history(self, revision: str) -> list[Commit]:
        """Return the commit of `revision` and those before it on its branch."""
        found = self.find(revision)
        for history in self.branches.values():
            if found in history:
                return history[history.index(found) :]
        return [found] if found else []


def make_commit(files: Files, *, title: str = "Upload files", date: str = "2026-11-30") -> Commit:
    """Return a commit whose id follows from its content."""
    digest = hashlib.sha1(title.encode())
    for path, content in sorted(files.items()):
        digest.update(path.encode() + b"\0" + content)
    return Commit(digest.hexdigest(), title, date, files)


@functools.cache
def installed_torch() -> dict[str, Any]:
    """Return what torch/version.py says (`__version__`, `cuda`, `hip`, `xpu`), without importing torch."""
    spec = importlib.util.find_spec("torch")
    assert spec and spec.origin
    return runpy.run_path(str(Path(spec.origin).parent / "version.py"))


@functools.cache
def machine_variant() -> str:
    """Return the name of the build variant for the torch that is installed here."""
    torch = installed_torch()
    major, minor = torch["__version__"].split(".")[:2]
    backend = f"cu{torch['cuda'].replace('.', '')}" if torch["cuda"] else "cpu"
    return f"torch{major}{minor}-cxx11-{backend}-{platform.machine()}-{platform.system().lower()}"


@functools.cache
def _document() -> dict[str, Any]:
    document: dict[str, Any] = json.loads((HERE / "kernels_community.json").read_text())
    return document


def organizations() -> dict[str, bool]:
    """Return the organizations and whether the Hub calls them trusted kernel publishers."""
    return dict(_document()["organizations"])


def kernel_repositories() -> list[Repository]:
    """Return all repositories of the data file, freshly made so that a test may change them."""
    return [
        replace(made, branches={name: list(history) for name, history in made.branches.items()}, tags=dict(made.tags))
        for made in _kernel_repositories()
    ]


@functools.cache
def _kernel_repositories() -> list[Repository]:
    return [
        Repository(
            type="kernel",
            id=raw["id"],
            branches={branch["name"]: _history(raw, branch) for branch in raw["branches"]},
            likes=raw.get("likes", 0),
            downloads=raw.get("downloads", 0),
        )
        for raw in _document()["repositories"]
    ]


def _history(raw: dict[str, Any], branch: dict[str, Any]) -> list[Commit]:
    commits = [branch, *({**branch, "metadata": {}, **earlier} for earlier in branch.get("earlier", []))]
    return [
        Commit(
            commit["commit"],
            f"Build {branch['name']} uploaded using `kernels`.",
            commit["date"],
            _files(raw, commit),
        )
        for commit in commits
    ]


def _files(raw: dict[str, Any], branch: dict[str, Any]) -> Files:
    files = {"README.md": f"# {raw['id']}\n".encode()}
    serves = branch.get("serves") == "attention"
    # The variant for the torch of this machine is invented where the branch has none.
    for variant in sorted({*branch["variants"], *([machine_variant()] if serves else [])}):
        folder = f"build/{variant}"
        metadata = _metadata(raw, branch, variant)
        if metadata is not None:
            files[f"{folder}/metadata.json"] = metadata
        files[f"{folder}/__init__.py"] = _test_kernel() if serves else _stub(variant)
    return files


def _metadata(raw: dict[str, Any], branch: dict[str, Any], variant: str) -> bytes | None:
    given = branch.get("metadata", {})
    if variant in given:
        return (METADATA / given[variant]).read_bytes() if given[variant] else None
    name = raw["id"].partition("/")[2]
    backend = backend_of(variant)
    archs = {"cuda": raw.get("archs"), "rocm": raw.get("rocm_archs")}.get(backend)
    made = {
        "name": name,
        "id": f"_{name.replace('-', '_')}_{backend}_{branch['commit'][:7]}",
        "version": int(branch["name"][1:]) if re.fullmatch(r"v\d+", branch["name"]) else 1,
        "license": raw.get("license", "Apache-2.0"),
        "python-depends": raw.get("python_depends", []),
        "backend": {"type": backend, **({"archs": archs} if archs else {})},
    }
    return json.dumps(made, indent=2).encode()


def backend_of(variant: str) -> str:
    """Return the backend type of metadata.json for a variant's name."""
    found = re.search(r"-(cu|cuda|cpu|rocm|xpu|metal)\d*(-|$)", variant)
    return {"cu": "cuda"}.get(found[1], found[1]) if found else "cpu"


@functools.cache
def _test_kernel() -> bytes:
    return (HERE / "kernel" / "__init__.py").read_bytes()


def _stub(variant: str) -> bytes:
    return f'raise ImportError("the loopback Hub has no binary for {variant}")\n'.encode()
