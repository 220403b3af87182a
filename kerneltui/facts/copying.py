"""Writing a copy of a data set with the columns that a trainer reads."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from kerneltui.errors import KerneltuiError
from kerneltui.facts.dataset import dataset_name, refusal, sources_of
from kerneltui.facts.mapping import ColumnMapping
from kerneltui.interpreter import Asker
from kerneltui.records import Document

FOLDER = "kerneltui-data"
"""The folder in which copies lie, in the directory of the plan."""


class Copied(Document):
    """A copy that was written: its `folder`, its `rows`, and the `changes` that make a configuration read it.

    None in `changes` removes a field.
    """

    folder: str
    rows: int
    mapping: ColumnMapping
    changes: dict[str, Any]


def free_folder(values: dict[str, Any], cwd: Path, trainer: str) -> str:
    """Return a folder for a copy of the data that `values` name, relative to `cwd`; it does not exist yet."""
    name = re.sub(r"[^\w.-]+", "-", Path(dataset_name(values) or "data").stem).strip("-.") or "data"
    found = f"{FOLDER}/{name}-{trainer}"
    number = 2
    while (cwd / found).exists():
        found, number = f"{FOLDER}/{name}-{trainer}-{number}", number + 1
    return found


def copy_data(
    asker: Asker,
    values: dict[str, Any],
    cwd: Path,
    mapping: ColumnMapping,
    folder: str,
    *,
    on_rows: Callable[[int], None] | None = None,
    stop: Callable[[], bool] = lambda: False,
    timeout: float = 600,
) -> Copied | None:
    """Write a copy of the data that `values` name into `folder` of `cwd`; None where `stop` said so, nothing is left.

    A data set is copied with its split for training, and the one for evaluation where that is asked for; each part of
    a mixture into a file of its own. Raises KerneltuiError where the rows cannot be read or written.
    """
    sources, files, changes = _places(values, folder)
    name = dataset_name(values) or ""
    begun = asker.ask(
        "data.copy", sources=sources, files=files, mapping=msgspec.to_builtins(mapping), cwd=str(cwd), timeout=timeout
    )
    if "reason" in begun:
        raise KerneltuiError(f"{name} cannot be copied", f"{begun['reason']}.")
    answer: dict[str, Any] = {"rows": 0, "done": False}
    while not answer["done"] and not stop():
        answer = asker.ask("data.copy.more", copy=begun["copy"], timeout=timeout)
        if "error" in answer:
            asker.ask("data.copy.end", copy=begun["copy"])
            raise _error(name, folder, sources, answer)
        if on_rows:
            on_rows(answer["rows"])
    asker.ask("data.copy.end", copy=begun["copy"])
    if not answer["done"]:
        return None
    return Copied(folder=folder, rows=answer["rows"], mapping=mapping, changes=changes)


def _error(name: str, folder: str, sources: list[dict[str, Any]], answer: dict[str, Any]) -> KerneltuiError:
    if answer["error_type"] in ("OSError", "PermissionError", "FileExistsError", "NotADirectoryError"):
        return KerneltuiError(
            f"The copy cannot be written to {folder}", answer["error"], "Check permissions and free space."
        )
    return refusal(name, sources, {**answer, "part": 0})


def _places(values: dict[str, Any], folder: str) -> tuple[list[dict[str, Any]], list[str], dict[str, Any]]:
    """Return what is copied, the file of each, and what then names the copy in the configuration."""
    sources = sources_of(values)
    if values.get("datasets"):
        files = [f"{folder}/part-{number}.jsonl" for number in range(1, len(sources) + 1)]
        shares = [{"fraction": it["fraction"]} if it.get("fraction") is not None else {} for it in sources]
        entries = [{"path": "json", "data_files": file, **share} for file, share in zip(files, shares, strict=True)]
        return sources, files, {"datasets": entries}
    files = [f"{folder}/train.jsonl"]
    if values.get("eval_strategy") not in (None, "no"):
        sources = [*sources, {**sources[0], "split": values.get("dataset_test_split") or "test"}]
        files.append(f"{folder}/test.jsonl")
    gone = ("dataset_config", "dataset_train_split", "dataset_test_split")
    return sources, files, {"dataset_name": folder, **dict.fromkeys(gone)}
