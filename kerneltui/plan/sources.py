"""The data that a person names, as TRL's configuration wants it: files under `datasets`, the rest as `dataset_name`."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import Any

from kerneltui.errors import UsageError
from kerneltui.facts.local_data import BUILDERS, builder_of


def data_values(text: str, cwd: Path) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the fields that name the data `text` (a file, a pattern, a folder, an address, or a Hub name).

    The second part are the fields to remove, since TRL takes either. Relative paths stay relative to `cwd`. Raises
    UsageError for nothing, and for a file of a kind that `datasets` does not read.
    """
    text = text.strip()
    if not text:
        raise UsageError("No data is named", hint="Give a file, a folder, or the name of a data set on the Hub.")
    path = str(Path(text).expanduser()) if text.startswith("~") else text
    local = cwd / path
    builder = builder_of(path)
    if local.is_dir() or (builder is None and not local.exists()):
        return {"dataset_name": path}, ("datasets",)
    if builder is None:
        raise UsageError(
            f"{text} is no data file that can be read",
            f"By its name it is none of {', '.join(BUILDERS)}.",
            "Give it one of these endings, or name a folder or a data set on the Hub.",
        )
    # `datasets` takes a path for a pattern.
    files = glob.escape(path) if local.exists() else path
    return {"datasets": [{"path": builder, "data_files": files}]}, ("dataset_name",)
