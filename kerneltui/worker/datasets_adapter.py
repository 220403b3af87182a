"""The one adapter over `datasets`: the first rows of a data set, streamed, and the format as TRL names it."""

from __future__ import annotations

import contextlib
import glob
import itertools
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .rewards import missing_columns, try_functions
from .tokenized import tokenized
from .transformers_adapter import hub_cause
from .trl_adapter import directory

# How much of a long text or list is handed over: enough to recognize it.
_TEXT, _LIST = 600, 32
# A JSON list is read as a whole by `datasets`; above this size, in bytes, that is not done for a look.
_WHOLE = 256 << 20
# `datasets` reads JSON lines in pieces of 10 MiB and looks at the first of them to know the columns. The first rows of
# a larger file need less of it.
_WHOLE_PIECE, _PIECE = 10 << 20, 1 << 20
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
    sources: list[dict[str, Any]],
    trainer: str,
    cwd: str,
    model: str | None = None,
    revision: str | None = None,
    rows: int = 20,
    options: dict[str, Any] | None = None,
    examples: int = 3,
    download: bool = False,
) -> dict[str, Any]:
    """Return the first rows of a data set and what they are; see `kerneltui.facts.dataset.DatasetFacts`.

    Each of `sources` has the keys of an entry of TRL's `datasets`: path, name, data_dir, data_files, split, columns; of
    several, which TRL joins, the rows are those that come first in each. `options` are the fields of the trainer's
    configuration. With a `model` whose tokenizer is on this machine (or is got there, with `download`) the trainer is
    asked what it makes of the rows, and the first `examples` are shown token by token.
    Where the data cannot be read the answer is `{"error_type", "error", "status", "part"}` with the exception of the
    library that refused; `part` is the number of the source, from 0, None where they do not go together.
    """
    options = options or {}
    text_field = str(options.get("dataset_text_field") or "text")
    tables: list[Any] = []
    with directory(cwd):
        try:
            for source in sources:
                tables.append(first_rows(source, max(1, rows // len(sources))))  # noqa: PERF401 - how far it came is told
            table, counted = joined(tables), _count(sources)
        except Exception as error:  # noqa: BLE001 - told apart by type in the front end
            part = len(tables) if len(tables) < len(sources) else None
            return {**refusal(error), "part": part}
        found = [dict(row) for row in table]
        columns = [column_facts(name, found) for name in table.column_names]
        made = tokenized(table, trainer, options, model, revision=revision, examples=examples, download=download)
    names = {column["name"] for column in columns}
    lacks, functions = missing_columns(options.get("reward_funcs"), table.column_names), options.get("reward_funcs")
    return {
        "columns": columns,
        "format": _format(names, text_field),
        "conversational": _conversational(found[0]),
        "rows": [{str(name): _cut(value) for name, value in row.items()} for row in found],
        **counted,
        "reward_lacks": lacks,
        "rewards": try_functions([name for name in functions or () if name not in lacks], table, cwd),
        **made,
    }


def first_rows(source: dict[str, Any], rows: int) -> Any:
    """Return the first rows of a data set, with the features that TRL would see. Raises NoRowsError."""
    import datasets

    with opened(source, look=True) as stream:
        found = [dict(row) for row in itertools.islice(stream, rows)]
    if not found:
        raise NoRowsError("there is no row")
    return datasets.Dataset.from_list(found, features=stream.features)


@contextlib.contextmanager
def opened(source: dict[str, Any], *, look: bool = False) -> Iterator[Any]:
    """Give the rows of a data set as a stream; for a `look` at the first of them it reads no more than these need."""
    import datasets

    _refuse_large_list(source)
    unreachable = on_hub(source["path"]) and not hub_has(source["path"])
    more = {"chunksize": _PIECE} if look and _is_large_json(source) else {}
    with cache_only() if unreachable else contextlib.nullcontext():
        stream = datasets.load_dataset(
            source["path"],
            name=source.get("name"),
            data_dir=source.get("data_dir"),
            data_files=source.get("data_files"),
            split=_first_split(source.get("split") or "train"),
            streaming=True,
            **more,
        )
        if source.get("columns"):
            stream = stream.select_columns(source["columns"])
        if any(f"{kind}(" in str(stream.features) for kind in ("Image", "Audio", "Video")):
            stream = stream.decode(False)  # they stay files
        yield stream


def joined(tables: list[Any]) -> Any:
    """Return data sets as one, as `trl.get_dataset` joins them; raises what it raises."""
    from datasets import concatenate_datasets

    return tables[0] if len(tables) == 1 else concatenate_datasets(tables)


def _is_large_json(source: dict[str, Any]) -> bool:
    return source["path"] == "json" and any(size > _WHOLE_PIECE for _, size in _files(source))


def _files(source: dict[str, Any]) -> list[tuple[str, int]]:
    """Return the local files of a source with their sizes in bytes."""
    files = source.get("data_files")
    patterns = [files] if isinstance(files, str) else files if isinstance(files, list) else []
    names = [name for pattern in patterns for name in sorted(glob.glob(str(pattern), recursive=True))]
    return [(name, Path(name).stat().st_size) for name in names]


def _count(sources: list[dict[str, Any]]) -> dict[str, Any]:
    """Return how many rows the data has, and whether they were counted or estimated by the lengths of lines."""
    counts = [_count_file(name, size, source["path"]) for source in sources for name, size in _files(source)]
    known = [count for count in counts if count is not None]
    if not known or len(known) < len(counts) or not all(_files(source) for source in sources):
        return {"total": None, "counted": False}
    return {"total": sum(rows for rows, _ in known), "counted": all(exact for _, exact in known)}


def _count_file(name: str, size: int, builder: str) -> tuple[int, bool] | None:
    if builder == "parquet":
        import pyarrow.parquet

        return pyarrow.parquet.ParquetFile(name).metadata.num_rows, True
    with Path(name).open("rb") as file:
        head = file.read(_PIECE)
    if builder not in ("json", "text") or not head.strip() or head.lstrip()[:1] == b"[" or b"\0" in head[:1024]:
        return None  # a list, or packed
    lines = sum(1 for line in head.splitlines() if line.strip())
    return (lines, True) if len(head) == size else (round(lines * size / len(head)), False)


def _first_split(split: str) -> str:
    """Return the first split of an expression such as "train[:10%]+test": a stream has whole splits alone."""
    return re.split(r"[\[+]", split, maxsplit=1)[0].strip()


def _refuse_large_list(source: dict[str, Any]) -> None:
    """Raise TooLargeError for a large local file that is one JSON list."""
    if source["path"] != "json":
        return
    for name, size in _files(source)[:1]:
        with Path(name).open("rb") as file:
            if file.read(1024).lstrip().startswith(b"[") and size > _WHOLE:
                raise TooLargeError(f"{name} is one JSON list of {size / 2**30:.1f} GiB")


def on_hub(path: str) -> bool:
    """Whether `datasets` would look for a data set of this name on the Hub."""
    from datasets.packaged_modules import _PACKAGED_DATASETS_MODULES

    relative = not path.startswith(("/", ".", "~")) and "://" not in path and path.count("/") <= 1
    return relative and path not in _PACKAGED_DATASETS_MODULES and not Path(path).is_dir()


def hub_has(path: str) -> bool:
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
def cache_only() -> Iterator[None]:
    """Make the libraries look in their cache alone, so that they do not ask a Hub again that does not answer."""
    import datasets.config
    from huggingface_hub import constants

    before = datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE
    datasets.config.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE = before


def refusal(error: Exception) -> dict[str, Any]:
    """Return what a library refused: `{"error_type", "error", "status"}`, the last of the Hub's answer."""
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
