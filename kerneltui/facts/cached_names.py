"""Models and data sets in the Hub's cache on this disk, by name. Nothing is opened, and the Hub is not asked."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Literal

Kind = Literal["models", "datasets"]


def cached_names(kind: Kind, folder: Path | None = None) -> list[str]:
    """Return the names that the cache holds something of, the last used first; an unreadable folder holds none."""
    if folder is None:
        from huggingface_hub import constants

        folder = Path(constants.HF_HUB_CACHE)
    found: list[tuple[float, str]] = []
    with contextlib.suppress(OSError):
        for path in folder.glob(f"{kind}--*--*"):
            owner, _, name = path.name.removeprefix(f"{kind}--").partition("--")
            if any((path / "snapshots").glob("*")):
                found.append((path.stat().st_mtime, f"{owner}/{name}"))
    return [name for _, name in sorted(found, reverse=True)]
