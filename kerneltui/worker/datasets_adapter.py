"""The one adapter over `datasets`: the first rows of a data set, streamed, and the format as TRL names it."""

from __future__ import annotations

import contextlib
import glob
import itertools
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .row_tokens import count_tokens
from .transformers_adapter import hub_cause
from .trl_adapter import directory

# How much of a long text or list is handed over: enough to recognize it.
_TEXT, _LIST = 600, 32
# A JSON list is read as a whole by `datasets`; above this size, in bytes, that is not done for a look.
_WHOLE = 256 << 20
# Seconds that the Hub has to say whether it has a data set; `datasets` itself would try for half a minute.
_TIMEOUT = 10.0

# Columns that TRL's documentation names for each format (dataset_formats), the more special first.
_FORMATS = (
    ("stepwise supervision", {"prompt", "completions", "labels"}),
    ("preference", {"chosen", "rejected"}),
    ("unpaired preference", {"prompt", "completion", "label"}),
    ("prompt-completion", {"prompt", "completion"}),
    ("language modeling", {"messages"}),
    ("language modeling", {"conversations"}),
    ("prompt-only", {"prompt"}),
)


class TooLargeError(Exception):
    """A file that can only be read as a whole, and is too large for that."""


class NoRowsError(Exception):
    """A data set without a row."""


def preview(
    source: dict[str, Any],
    trainer: str,
    cwd: str,
    model: str | None = None,
    rows: int = 20,
    text_field: str = "text",
) -> dict[str, Any]:
    """Return the first rows of a data set and what they are; see `kerneltui.facts.dataset.DatasetFacts`.

    `source` has the keys of an entry of TRL's `datasets`: path, name, data_dir, data_files, split, columns. With a
    `model` whose tokenizer is on this machine the tokens of each row are counted. Where the data cannot be read the
    answer is `{"error_type", "error", "status"}` with the exception of the library that refused.
    """
    with directory(cwd):
        try:
            found = _read(source, rows)
        except Exception as error:  # noqa: BLE001 - told apart by type in the front end
            return _refusal(error)
        columns = [column_facts(name, found) for name in found[0]]
        counted = count_tokens(found, trainer, text_field, model)
    names = {column["name"] for column in columns}
    return {
        "columns": columns,
        "format": _format(names, text_field),
        "conversational": _conversational(found[0]),
        "rows": [{str(name): _cut(value) for name, value in row.items()} for row in found],
        **counted,
    }


def _read(source: dict[str, Any], rows: int) -> list[dict[str, Any]]:
    import datasets

    _refuse_large_list(source)
    unreachable = _on_hub(source["path"]) and not _hub_has(source["path"])
    with _cache_only() if unreachable else contextlib.nullcontext():
        stream = datasets.load_dataset(
            source["path"],
            name=source.get("name"),
            data_dir=source.get("data_dir"),
            data_files=source.get("data_files"),
            split=source.get("split") or "train",
            streaming=True,
        )
        if source.get("columns"):
            stream = stream.select_columns(source["columns"])
        if any(f"{kind}(" in str(stream.features) for kind in ("Image", "Audio", "Video")):
            stream = stream.decode(False)  # they stay files
        found = [dict(row) for row in itertools.islice(stream, rows)]
    if not found:
        raise NoRowsError("there is no row")
    return found


def _refuse_large_list(source: dict[str, Any]) -> None:
    """Raise TooLargeError for a large local file that is one JSON list."""
    if source["path"] != "json" or not isinstance(source.get("data_files"), str):
        return
    for name in sorted(glob.glob(source["data_files"], recursive=True))[:1]:
        with Path(name).open("rb") as file:
            if file.read(1024).lstrip().startswith(b"[") and os.fstat(file.fileno()).st_size > _WHOLE:
                raise TooLargeError(f"{name} is one JSON list of {os.fstat(file.fileno()).st_size / 2**30:.1f} GiB")


def _on_hub(path: str) -> bool:
    """Whether `datasets` would look for a data set of this name on the Hub."""
    from datasets.packaged_modules import _PACKAGED_DATASETS_MODULES

    relative = not path.startswith(("/", ".", "~")) and "://" not in path and path.count("/") <= 1
    return relative and path not in _PACKAGED_DATASETS_MODULES and not Path(path).is_dir()


def _hub_has(path: str) -> bool:
    """Return whether the Hub has a data set, False where it cannot be asked. Raises what the Hub's client raises."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        HfApi().dataset_info(path, timeout=_TIMEOUT)
    except (HfHubHTTPError, HFValidationError):
        raise
    except Exception:  # noqa: BLE001 - no answer: whatever the HTTP library below raises, the cache may hold the data
        return False
    return True


@contextlib.contextmanager
def _cache_only() -> Iterator[None]:
    """Make the libraries look in their cache alone, so that they do not ask a Hub again that does not answer."""
    import datasets.config
    from huggingface_hub import constants

    before = datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE
    datasets.config.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE = before


def _refusal(error: Exception) -> dict[str, Any]:
    cause = hub_cause(error)
    status = getattr(getattr(cause, "response", None), "status_code", None)
    return {"error_type": type(cause).__name__, "error": str(cause), "status": status}


def column_facts(name: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a column with the type of its first value, and the first row (from 1) where it has another one."""
    kinds = [value_type(row.get(name)) for row in rows]
    odd = next((number for number, kind in enumerate(kinds, 1) if kind != kinds[0]), None)
    same = {kinds[0], kinds[odd - 1]} <= {"int", "float"} if odd else True
    return {"name": str(name), "type": kinds[0], "odd_row": None if same else odd, "odd_type": kinds[(odd or 1) - 1]}


def value_type(value: Any) -> str:
    """Return the word for what a value is; "messages" are what TRL takes for a conversation."""
    if value is None:
        return "null"
    if isinstance(value, (bool, int, float, str)):
        return {"bool": "bool", "int": "int", "float": "float"}.get(type(value).__name__, "text")
    if isinstance(value, Mapping):
        return "image" if set(value) == {"bytes", "path"} else "mapping"
    if not isinstance(value, list):
        return "image" if hasattr(value, "getbands") else type(value).__name__
    if not value:
        return "empty list"
    first = value[0]
    if isinstance(first, Mapping) and "role" in first:
        return "messages"
    if isinstance(first, Mapping) and {"from", "value"} <= set(first):
        return "from/value messages"
    return f"list of {value_type(first)}"


def _format(names: set[str], text_field: str) -> str | None:
    found = next((name for name, columns in _FORMATS if columns <= names), None)
    if text_field in names and found in (None, "prompt-only"):
        return "language modeling"
    return found or ("tokenized" if "input_ids" in names else None)


def _conversational(row: dict[str, Any]) -> bool:
    from trl.data_utils import is_conversational, is_conversational_from_value

    try:
        # One column after the other: TRL looks at any one of them.
        return is_conversational_from_value(row) or any(is_conversational({name: row[name]}) for name in row)
    except IndexError:  # an empty list of messages
        return False


def _cut(value: Any) -> Any:
    """Return a value of a row as JSON can hold it, long text and lists cut."""
    if isinstance(value, str):
        return value if len(value) <= _TEXT else value[:_TEXT] + "…"
    if isinstance(value, Mapping):
        return {str(key): _cut(item) for key, item in itertools.islice(value.items(), _LIST)}
    if isinstance(value, (list, tuple)):
        return [_cut(item) for item in value[:_LIST]] + (["…"] if len(value) > _LIST else [])
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, (bytes, bytearray)):
        return f"{len(value)} bytes"
    return value if value is None or isinstance(value, (bool, int)) else _cut(str(value))


HANDLERS = {"data.preview": preview}
