"""Which tool made an environment, and the command that installs into it."""

from __future__ import annotations

import venv
from pathlib import Path

import pytest

from kerneltui.installer import find_installer, install_command


def environment(folder: Path, **files: str) -> Path:
    """Return the interpreter's path of an environment with these files; "__" stands for a slash."""
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / "bin" / "python"


def test_uv_names_itself(tmp_path: Path) -> None:
    # As uv 0.8 writes it; with --seed there is pip as well.
    settings = "home = /usr/bin\nimplementation = CPython\nuv = 0.8.4\nversion_info = 3.12.3\n"
    python = environment(tmp_path, **{"pyvenv.cfg": settings})
    (tmp_path / "lib/python3.12/site-packages/pip").mkdir(parents=True)
    assert find_installer(python) == "uv"


def test_a_virtual_environment_with_pip_and_one_without(tmp_path: Path) -> None:
    venv.create(tmp_path, symlinks=True)
    assert find_installer(tmp_path / "bin" / "python") == "uv"
    next(tmp_path.glob("lib/python*/site-packages")).joinpath("pip").mkdir()
    assert find_installer(tmp_path / "bin" / "python") == "pip"


def test_the_pip_of_the_system_is_enough(tmp_path: Path) -> None:
    venv.create(tmp_path, symlinks=True, system_site_packages=True)
    assert find_installer(tmp_path / "bin" / "python") == "pip"


def test_conda_also_behind_a_link(tmp_path: Path) -> None:
    python = environment(tmp_path / "envs" / "train", **{"conda-meta__history": "", "bin__python": ""})
    assert find_installer(python) == "conda"
    (tmp_path / "py").symlink_to(python)
    assert find_installer(tmp_path / "py") == "conda"


def test_a_python_of_the_system(tmp_path: Path) -> None:
    assert find_installer(environment(tmp_path, bin__python="")) == "pip"


@pytest.mark.parametrize(
    ("installer", "command"),
    [
        ("uv", ["uv", "pip", "install", "--python", "/e/bin/python", "trl"]),
        ("pip", ["/e/bin/python", "-m", "pip", "install", "trl"]),
        ("conda", ["/e/bin/python", "-m", "pip", "install", "trl"]),
        (None, ["/e/bin/python", "-m", "pip", "install", "trl"]),
    ],
)
def test_the_command(installer: str | None, command: list[str]) -> None:
    assert install_command("/e/bin/python", installer, "trl") == command  # type: ignore[arg-type]
