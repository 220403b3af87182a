"""The Hub kernels that a process has really loaded, read back from the kernels library."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any


def loaded_kernels() -> list[dict[str, Any]]:
    """Return the Hub kernels that this process has loaded: repository, revision, commit, variant, version."""
    kernels = sys.modules.get("kernels")
    if kernels is None or not hasattr(kernels, "get_loaded_kernels"):
        return []
    return [_loaded(kernel) for kernel in kernels.get_loaded_kernels()]


def _loaded(kernel: Any) -> dict[str, Any]:
    path = Path(kernel.module.__file__)
    parts = path.parts
    build = len(parts) - 1 - parts[::-1].index("build") if "build" in parts else None
    cached = "snapshots" in parts
    return {
        "name": str(kernel.metadata.name),
        "version": kernel.metadata.version,
        "repository": kernel.repo_info.repo_id if kernel.repo_info else None,
        "revision": kernel.repo_info.revision if kernel.repo_info else None,
        "commit": parts[parts.index("snapshots") + 1] if cached else "local",
        "variant": parts[build + 1] if build is not None else path.parent.name,
        "path": str(path.parent),
    }
