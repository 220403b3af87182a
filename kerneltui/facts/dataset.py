"""The data set: its columns, the format as TRL names it, and its first rows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from kerneltui.errors import KerneltuiError, UsageError
from kerneltui.facts.local_data import check_local_data
from kerneltui.facts.model import UNREACHABLE
from kerneltui.facts.prepared import Prepared, Refusal
from kerneltui.facts.rewards import RewardTrial
from kerneltui.interpreter import Asker, ProgressCallback
from kerneltui.records import Record, from_builtins
from kerneltui.text import plain

ROWS = 20
# The fields of a trainer's configuration that decide on what it makes of a row.
OPTIONS = (
    *("max_length", "truncation_mode", "packing", "packing_strategy", "completion_only_loss", "assistant_only_loss"),
    *("dataset_text_field", "dataset_kwargs", "eos_token", "pad_token", "chat_template_path", "chat_template_kwargs"),
    *("max_prompt_length", "max_completion_length", "loss_type", "reward_funcs"),
)


class Column(Record):
    """A column of a data set.

    `type` is what its first value is: "text", "messages", "from/value messages", "bool", "int", "float", "image",
    "mapping", "list of …", "empty list" or "null". `odd_row` is the first row (from 1) with another type, `odd_type`.
    """

    name: str
    type: str
    odd_row: int | None = None
    odd_type: str | None = None


class DatasetFacts(Record):
    """A data set as far as its first rows tell.

    `name` is what the person calls it, `split` the one that was read, `parts` the number of data sets that TRL joins.
    `format` is one of TRL's (language modeling, prompt-completion, preference, unpaired
    preference, prompt-only, stepwise supervision), "tokenized", or None where the columns fit none; `conversational`
    tells whether it holds messages. `rows` are the first ones, long texts cut; of several parts, the first of each.
    `total` is how many there are, `counted` whether that was counted (else it is estimated by the first ones).

    `prepared` is what `trainer` makes of these rows, `refused` what it said where it refuses them; without either,
    `no_tokens` says why it could not be asked. `tokens` are those of each row, of its longest sequence. `chat_template`
    tells whether the model's tokenizer has one, None where it is not here. `reward_lacks` are the columns that TRL's
    own reward functions want, each by its name, and the data has not; `rewards` what the others gave to completions.
    """

    name: str
    split: str
    columns: tuple[Column, ...]
    format: str | None = None
    conversational: bool = False
    rows: tuple[dict[str, Any], ...] = ()
    tokens: tuple[int, ...] | None = None
    no_tokens: str | None = None
    chat_template: bool | None = None
    parts: int = 1
    total: int | None = None
    counted: bool = False
    trainer: str | None = None
    prepared: Prepared | None = None
    refused: Refusal | None = None
    reward_lacks: dict[str, tuple[str, ...]] = {}
    rewards: tuple[RewardTrial, ...] = ()

    @property
    def types(self) -> dict[str, str]:
        """The type of each column by its name."""
        return {column.name: column.type for column in self.columns}

    @property
    def kind(self) -> str:
        """The format in words, as TRL's documentation writes it."""
        if self.format in (None, "tokenized", "stepwise supervision"):
            return self.format or "a format that TRL does not name"
        return f"{self.format}, {'conversational' if self.conversational else 'standard'}"


def read_dataset(
    asker: Asker,
    values: dict[str, Any],
    cwd: Path,
    trainer: str,
    *,
    rows: int = ROWS,
    examples: int = 3,
    download: bool = False,
    timeout: float = 120,
    on_progress: ProgressCallback | None = None,
) -> DatasetFacts:
    """Return the facts of the data that `values` name, the fields of a TRL configuration as they were parsed.

    Reads no more than the first rows, of a file of any size; the first `examples` of them come token by token. With
    `download` a tokenizer that is not on this machine is got from the Hub. Raises UsageError for what the person must
    correct (no such file, no such split, a row that cannot be read) or KerneltuiError (the Hub did not give it).
    """
    check_local_data(values, cwd)
    sources = sources_of(values)
    answer = asker.ask(
        "data.preview",
        sources=sources,
        trainer=trainer,
        cwd=str(cwd),
        **reader_arguments(values),
        rows=rows,
        examples=examples,
        download=download,
        timeout=timeout,
        on_progress=on_progress,
    )
    name = dataset_name(values) or ""
    if "error" in answer:
        raise refusal(name, sources, answer)
    found = {
        **answer,
        "name": name,
        "split": sources[0].get("split") or "train",
        "parts": len(sources),
        "trainer": trainer,
    }
    return from_builtins(found, DatasetFacts, f"the facts of {name}")


def dataset_name(values: dict[str, Any]) -> str | None:
    """Return what a person calls the data of a configuration: its Hub name or its files; None where none is named."""
    for entry in values.get("datasets") or []:
        if isinstance(entry, dict):
            files = entry.get("data_files")
            return files if isinstance(files, str) else str(entry.get("path"))
    found = values.get("dataset_name")
    return str(found) if found else None


def reader_arguments(values: dict[str, Any]) -> dict[str, Any]:
    """Return what tells the worker how rows become tokens: the model, its revision, the trainer's options."""
    model, kwargs = values.get("model_name_or_path"), values.get("model_init_kwargs")
    revision = values.get("model_revision")
    if isinstance(kwargs, dict):  # it overrides the field, as TRL's scripts do it
        revision = kwargs.get("revision", revision)
    return {
        "model": model if isinstance(model, str) else None,
        "revision": revision if isinstance(revision, str) and revision != "main" else None,
        "options": {name: values[name] for name in OPTIONS if name in values},
    }


def sources_of(values: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the data sets, each in the form of an entry of `datasets`. Raises UsageError where none is named."""
    entries = values.get("datasets") or []
    if entries:
        if not all(isinstance(entry, dict) and isinstance(entry.get("path"), str) for entry in entries):
            raise UsageError(
                "datasets cannot be read",
                "Each entry is a mapping with a path.",
                "Write it as {path: json, data_files: rows.jsonl} or {path: owner/name}.",
            )
        return [dict(entry) for entry in entries]
    name = values.get("dataset_name")
    if not isinstance(name, str) or not name:
        raise UsageError("No data is named", hint="Give a file, a folder, or the name of a data set on the Hub.")
    split = values.get("dataset_train_split") or "train"
    return [{"path": name, "name": values.get("dataset_config"), "split": split}]


def refusal(name: str, sources: list[dict[str, Any]], answer: dict[str, Any]) -> KerneltuiError:
    """Return the error for what the libraries refused, in the part that they refused."""
    kind, message, part = answer["error_type"], plain(answer["error"]).strip(), answer.get("part")
    if part is None and len(sources) > 1:
        return UsageError(
            "The parts of the data do not go together",
            f"{message.splitlines()[0] if message else kind}",
            "TRL joins them into one table: give all the same columns, by `columns` or in the files.",
        )
    source = sources[part or 0]
    if part is not None and len(sources) > 1:
        files = source.get("data_files")
        name = files if isinstance(files, str) else str(source.get("path"))
    return _error(name, source, kind, message, answer["status"])


def _error(name: str, source: dict[str, Any], kind: str, message: str, status: int | None) -> KerneltuiError:
    first = message.splitlines()[0] if message else kind
    choices = re.search(r"(?:Available(?: splits)?:|pick one among the available configs:|one of) *(\[.*?\])", message)
    if choices:
        field = "split" if "plit" in first else "configuration (dataset_config)"
        return UsageError(f"{name} needs another {field}", first, f"Choose one of {choices[1].strip('[]')}.")
    if "is a gated dataset" in message or kind == "GatedRepoError" or status == 403:
        return KerneltuiError(
            f"{name} is gated", first, "Ask for access on its page, then log in with `hf auth login`."
        )
    if status == 429 or (status is not None and status >= 500):
        return KerneltuiError(f"The Hub did not give {name} ({status})", first, "Wait a minute, then try again.")
    if kind in ("RepositoryNotFoundError", "HFValidationError") or status in (401, 404):
        return KerneltuiError(
            f"No data set {name} on the Hub, or it is private",
            f"Nor is it a folder here. {first}",
            "Check the name; for a private data set log in with `hf auth login`.",
        )
    if kind in UNREACHABLE or kind == "ConnectionError":
        return KerneltuiError(
            f"Cannot get {name}: the Hub cannot be reached and the cache does not hold it",
            first,
            "Check the network, HF_ENDPOINT and HF_HUB_OFFLINE, or give a local file.",
        )
    return _unreadable(name, source, kind, message or kind)


def _unreadable(name: str, source: dict[str, Any], kind: str, message: str) -> KerneltuiError:
    first = message.splitlines()[0]
    if kind == "TooLargeError":
        return KerneltuiError(
            f"{name} is too large to look into", f"{first}.", "Write one object a line (JSON lines) instead of a list."
        )
    if kind == "NotImplementedError":  # what `datasets` reads as a whole only
        return KerneltuiError(f"{name} cannot be looked into", first, "Training reads all of it first.")
    if kind in ("NoRowsError", "StopIteration", "EmptyDataError"):
        return UsageError(f"{name} has no rows", hint="Give data with at least one row.")
    if kind in ("FileNotFoundError", "DataFilesNotFoundError", "EmptyDatasetError", "DatasetNotFoundError"):
        return UsageError(f"No data at {name}", first, "Check the path, or the name of the data set on the Hub.")
    if kind == "UnicodeDecodeError":
        return UsageError(f"{name} is not UTF-8 text", first, "Save it as UTF-8.")
    row = re.search(r"in row (\d+)", message)
    where = f"Row {int(row[1]) + 1} of the part that was read: " if row else ""
    builder = "" if source["path"] == name else f" as {source['path']}"
    return UsageError(f"{name} cannot be read{builder}", f"{where}{first}", "Correct that place in the file.")
