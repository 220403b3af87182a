"""The training packages and whether their versions go together."""

from __future__ import annotations

from packaging.version import InvalidVersion, Version

from kerneltui.facts.server import Server


def read_version(text: str | None) -> Version | None:
    """Return a version, None where there is none or it cannot be read as one (PEP 440)."""
    try:
        return Version(text) if text else None
    except InvalidVersion:
        return None


def cite(server: Server, package: str, symbol: str) -> str:
    """Return the source line for what the code of a package says, with the version that is installed."""
    found = server.packages.get(package)
    version = read_version(found.version) if found else None
    return f"{package} {version}: {symbol}" if version else f"{package}: {symbol}"


def kernels_usable(server: Server) -> bool:
    """Return whether the installed transformers accepts the installed kernels package.

    The range is transformers' own (`Server.libraries`); where it is not told, an installed kernels counts as usable.
    """
    installed = server.packages.get("kernels")
    if installed is None or installed.error:
        return False
    libraries = server.libraries
    version = read_version(installed.version)
    low = read_version(libraries.kernels_minimum) if libraries else None
    high = read_version(libraries.kernels_maximum) if libraries else None
    return version is None or ((low is None or version >= low) and (high is None or version < high))
