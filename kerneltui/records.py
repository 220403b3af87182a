"""Records: frozen, typed, strict, and the same on disk, on a pipe and in memory."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, TypeVar, dataclass_transform

import msgspec

from kerneltui.errors import RecordError
from kerneltui.text import did_you_mean

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all records: immutable, compared by value, unknown keys are errors."""


class Document(Record, frozen=True, kw_only=True):
    """A record that stands alone in a file or on standard output; `schema` counts its incompatible versions."""

    schema: int = 1


def to_json(value: object, *, indent: int = 2) -> bytes:
    """Return `value` as JSON that ends with a newline; `indent` 0 puts it on one line."""
    data = msgspec.json.encode(value)
    return (msgspec.json.format(data, indent=indent) if indent else data) + b"\n"


def from_json(data: bytes, kind: type[T], source: str) -> T:
    """Return the record of type `kind` that `data` holds.

    Raises RecordError, which names `source`, the key and the nearest valid key.
    """
    try:
        raw = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RecordError(f"{source} is not JSON", str(error), "Write the file again, or name another.") from error
    return from_builtins(raw, kind, source)


def from_builtins(raw: Any, kind: type[T], source: str) -> T:
    """Return `raw` (dicts, lists, strings, numbers) as a record of type `kind`. Raises RecordError as `from_json`."""
    written = raw.get("schema") if isinstance(raw, dict) else None
    newest = _defaults(kind).get("schema") if written is not None else None  # to read the defaults takes long
    if isinstance(written, int) and isinstance(newest, int) and written > newest:
        raise RecordError(
            f"{source} was written by a newer kerneltui",
            f"It has schema {written}; this version reads up to {newest}.",
            "Update kerneltui.",
        )
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        raise RecordError(f"{source} does not fit", *_explain(str(error), kind)) from error


def read_record(path: Path, kind: type[T]) -> T:
    """Return the record of type `kind` in the file `path`. Raises RecordError."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RecordError(f"Cannot read {path}", error.strerror or str(error), "Check the path.") from error
    return from_json(data, kind, str(path))


def _defaults(kind: type[Any]) -> dict[str, Any]:
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        return {}
    return {field.name: field.default for field in msgspec.structs.fields(kind)}


def _explain(message: str, kind: type[Any]) -> tuple[str, str]:
    """Return msgspec's message and a hint that names the nearest key of `kind` or of a record inside it."""
    unknown = re.search(r"unknown field `(.+?)`", message)
    if not unknown:
        return message, "Correct that key."
    schema = msgspec.json.schema(kind)
    keys = {key for part in (schema, *schema.get("$defs", {}).values()) for key in part.get("properties", {})}
    return message, did_you_mean(unknown[1], keys) or "Remove that key."
