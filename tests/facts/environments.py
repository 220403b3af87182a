"""Virtual environments that cost nothing: no pip, and packages of one line."""

from __future__ import annotations

import venv
from pathlib import Path


def make_environment(folder: Path) -> Path:
    """Return the interpreter of a new environment without any package."""
    venv.create(folder, symlinks=True)
    return folder / "bin" / "python"


def add_package(python: Path, name: str, code: str, *, version: str = "1.0", requires: tuple[str, ...] = ()) -> Path:
    """Install a package of one module with `code` and return its file; `name` is that of the distribution."""
    (packages,) = python.parent.parent.glob("lib/python*/site-packages")
    module = packages / name.replace("-", "_") / "__init__.py"
    module.parent.mkdir(exist_ok=True)
    module.write_text(code)
    metadata = packages / f"{name.replace('-', '_')}-{version}.dist-info" / "METADATA"
    metadata.parent.mkdir()
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    metadata.write_text("\n".join([*lines, *(f"Requires-Dist: {line}" for line in requires)]) + "\n")
    return module
