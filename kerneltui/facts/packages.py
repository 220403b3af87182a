"""The training packages and whether their versions go together."""

from __future__ import annotations

from packaging.version import InvalidVersion, Version

from kerneltui.facts.server import Server


def kernels_usable(server: Server) -> bool:
    """Return whether the installed transformers accepts the installed kernels package.

    The range is transformers' own (`Server.libraries`); where it is not told, an installed kernels counts as usable.
    """
    installed = server.packages.get("kernels")
    if installed is None or installed.error:
        return False
    libraries = server.libraries
    try:
        version = Version(installed.version)
        low = Version(libraries.kernels_minimum) if libraries and libraries.kernels_minimum else None
        high = Version(libraries.kernels_maximum) if libraries and libraries.kernels_maximum else None
    except InvalidVersion:
        return True
    return (low is None or version >= low) and (high is None or version < high)
