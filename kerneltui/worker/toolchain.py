"""What Triton needs to compile a launcher while training runs: a C compiler and Python's headers.

Source: triton.runtime.build (3.9.0). tests/facts/test_probe.py holds the rule below against the installed Triton.
"""

from __future__ import annotations

import importlib
import os
import shutil
import sysconfig
from pathlib import Path
from typing import Any

from .library_tables import attempt


def read_toolchain() -> dict[str, Any]:
    """Return the fields of `facts.server.Toolchain`."""
    unavailable: dict[str, str] = {}
    return {
        "compiler": attempt("compiler", find_compiler, unavailable),
        "headers": attempt("headers", find_headers, unavailable),
        "unavailable": unavailable,
    }


def find_compiler() -> str:
    """Return the path of the C compiler that Triton takes; Triton is asked where it has a function for it."""
    try:
        chosen = importlib.import_module("triton.runtime.build")._find_compiler("c")
    except (ImportError, AttributeError):
        chosen = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")
    if chosen is None:
        raise RuntimeError("neither gcc nor clang is in PATH, and CC is not set")
    found = shutil.which(chosen)
    if found is None:
        raise RuntimeError(f"CC names {chosen}, which is no program")
    return found


def find_headers() -> str:
    """Return the folder with Python.h that the compiler is given."""
    scheme = sysconfig.get_default_scheme()
    # Debian's own scheme names a folder under /usr/local, where no package puts headers.
    folder = sysconfig.get_paths(scheme="posix_prefix" if scheme == "posix_local" else scheme)["include"]
    if not Path(folder, "Python.h").is_file():
        raise RuntimeError(f"{folder} has no Python.h: Python's headers (python3-dev, python3-devel) are not installed")
    return folder
