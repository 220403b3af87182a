"""How packages get into an interpreter's environment: pip, uv or conda, as it was made."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

Installer = Literal["pip", "uv", "conda"]


def find_installer(python: Path) -> Installer:
    """Return what made the environment of the interpreter `python`, judged by the files that it leaves there.

    conda keeps its record in `conda-meta`, uv writes its version into `pyvenv.cfg`, and only uv makes virtual
    environments without pip unless it is asked to.
    """
    if any((place.parent.parent / "conda-meta").is_dir() for place in (python, python.resolve())):
        return "conda"
    prefix = python.parent.parent
    try:
        settings = (prefix / "pyvenv.cfg").read_text("utf-8", "replace")
    except OSError:
        return "pip"
    by_uv = any(line.partition("=")[0].strip() == "uv" for line in settings.splitlines())
    return "uv" if by_uv or not _has_pip(prefix, settings) else "pip"


def _has_pip(prefix: Path, settings: str) -> bool:
    """Return whether a virtual environment has pip, or may find the one of the Python that it was made from."""
    shared = any(line.replace(" ", "").lower() == "include-system-site-packages=true" for line in settings.splitlines())
    return shared or any(prefix.glob("lib*/python*/site-packages/pip"))


def install_command(python: Path | str, installer: Installer | None, *requirements: str) -> list[str]:
    """Return the command that installs `requirements` into the environment of `python`.

    Inside conda it is pip too: PyTorch itself is no longer published for conda
    (https://github.com/pytorch/pytorch/issues/138506), and not all that is needed here is on conda-forge.
    """
    if installer == "uv":
        return ["uv", "pip", "install", "--python", str(python), *requirements]
    return [str(python), "-m", "pip", "install", *requirements]
