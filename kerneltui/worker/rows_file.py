"""The first rows of the data that a plan names, as files that TRL reads in the same form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .datasets_adapter import first_rows
from .trl_adapter import directory


def write_rows(sources: list[dict[str, Any]], cwd: str, folder: str) -> list[int]:
    """Write the first rows of each data set to a parquet file below `folder`, and return how many there are of each.

    `sources` are as `datasets_adapter.preview` takes them, each with "file", the name of its file, and "rows", how
    many. Columns and their types are those of the data. Raises what the libraries raise.
    """
    counts = []
    with directory(cwd):
        for source in sources:
            table = first_rows(source, source["rows"])
            table = table.cast(_decoded(table.features))
            file = Path(folder, source["file"])
            file.parent.mkdir(parents=True, exist_ok=True)
            table.to_parquet(str(file))
            counts.append(len(table))
    return counts


def _decoded(features: Any) -> Any:
    """Return the types of columns as training reads them: for a look, pictures and sounds are left as files."""
    found = features.copy()
    for feature in found.values():
        for kind in filter(None, (feature, getattr(feature, "feature", None))):
            if getattr(kind, "decode", None) is False:
                kind.decode = True
    return found
