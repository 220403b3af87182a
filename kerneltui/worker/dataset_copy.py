"""A copy of a data set with other columns: rows are read, mapped and written piece by piece."""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

from .dataset_scan import not_whole
from .datasets_adapter import opened, refusal
from .trl_adapter import directory

# Seconds of work that one question does.
_WORK = 1.0
# Columns that TRL's trainers read by their names: those that a mapping does not make are not copied.
_READ = (
    *("prompt", "completion", "messages", "conversations", "text", "chosen", "rejected", "reference", "label"),
    *("completions", "prompts", "input_ids", "labels"),
)

_open: dict[int, Copy] = {}
_numbers = itertools.count(1)


class Copy:
    """Writes data sets as JSON lines, each to a file of its own, which gets its name when it is whole."""

    def __init__(self, sources: list[dict[str, Any]], files: list[str], mapping: dict[str, Any], cwd: str) -> None:
        self.cwd, self._parts = cwd, [Path(f"{file}.part") for file in files]
        self._rows = 0
        self._written = self._write(sources, mapping)

    def more(self) -> dict[str, Any]:
        """Write for a while; return how many "rows" were written in all, and whether all are: "done"."""
        begin, done = time.monotonic(), False
        while not done and time.monotonic() - begin < _WORK:
            done = next(self._written, None) is None
        return {"rows": self._rows, "done": done}

    def undo(self) -> None:
        """Remove what is not whole."""
        self._written.close()
        for part in self._parts:
            part.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # it holds what is whole
                part.parent.rmdir()

    def _write(self, sources: list[dict[str, Any]], mapping: dict[str, Any]) -> Generator[int]:
        for source, part in zip(sources, self._parts, strict=True):
            part.parent.mkdir(parents=True, exist_ok=True)
            with opened(source) as stream, part.open("w", encoding="utf-8") as file:
                for row in stream:
                    file.write(json.dumps(mapped(row, **mapping), ensure_ascii=False, default=str) + "\n")
                    self._rows += 1
                    yield self._rows
        for part in self._parts:
            part.rename(part.with_suffix(""))


def mapped(
    row: dict[str, Any], columns: dict[str, list[str]], system: str | None, chat: bool, roles: dict[str, str]
) -> dict[str, Any]:
    """Return a row with other columns; see `kerneltui.facts.mapping.Mapping`."""
    before = row.get(system) if system else None
    made = {
        name: _value(name, [row.get(source) for source in sources], before, chat, roles)
        for name, sources in columns.items()
    }
    used = {system, *_READ, *made, *(source for sources in columns.values() for source in sources)}
    return {**made, **{name: value for name, value in row.items() if name not in used}}


def _value(name: str, values: list[Any], system: str | None, chat: bool, roles: dict[str, str]) -> Any:
    found = [value for value in values if value is not None]
    texts = [value for value in found if isinstance(value, str)]
    if not found:
        return None
    if name == "messages":
        return _conversation(found, system, roles)
    if len(texts) == len(found):
        text = "\n\n".join(text for text in texts if text.strip())
        before = system if system and name == "prompt" else None
        if not chat or name not in ("prompt", "completion", "chosen", "rejected", "reference"):
            return f"{before}\n\n{text}" if before else text
        if name != "prompt":
            return [{"role": "assistant", "content": text}]
        return [*([{"role": "system", "content": before}] if before else []), {"role": "user", "content": text}]
    if not isinstance(found[0], list):
        return found[0]
    messages = _messages(found[0], roles)
    while name == "prompt" and messages and messages[-1].get("role") == "assistant":
        messages.pop()  # what the trainer lets the model write
    return messages


def _conversation(values: list[Any], system: str | None, roles: dict[str, str]) -> list[dict[str, Any]]:
    """Return one conversation of several parts: a text is the user's, the last one the assistant's."""
    found: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
    asked = [value for value in values[:-1] if isinstance(value, str) and value.strip()]
    if asked:
        found.append({"role": "user", "content": "\n\n".join(asked)})
    found += [message for value in values if isinstance(value, list) for message in _messages(value, roles)]
    if isinstance(values[-1], str):
        found.append({"role": "assistant" if len(values) > 1 else "user", "content": values[-1]})
    return found


def _messages(value: list[Any], roles: dict[str, str]) -> list[Any]:
    from trl.data_utils import maybe_convert_to_chatml

    copies = [dict(message) if isinstance(message, dict) else message for message in value]
    messages = maybe_convert_to_chatml({"messages": copies})["messages"]
    for message in messages:
        if isinstance(message, dict) and message.get("role") in roles:
            message["role"] = roles[message["role"]]
    return messages


def begin(sources: list[dict[str, Any]], files: list[str], mapping: dict[str, Any], cwd: str) -> dict[str, Any]:
    """Return the number of a new copy, or why there can be none: "reason"."""
    if reason := not_whole([{**source, "fraction": None} for source in sources]):
        return {"reason": reason}
    number = next(_numbers)
    _open[number] = Copy(sources, files, mapping, cwd)
    return {"copy": number}


def more(copy: int) -> dict[str, Any]:
    """Write more of a copy, see `Copy.more`; what the libraries refuse is `{"error_type", "error", …}`."""
    try:
        with directory(_open[copy].cwd):
            return _open[copy].more()
    except Exception as error:  # noqa: BLE001 - told apart by type in the front end
        return {**refusal(error), "part": None}


def end(copy: int) -> None:
    """Forget a copy; what is not whole is removed."""
    if found := _open.pop(copy, None):
        with directory(found.cwd):
            found.undo()


HANDLERS = {"data.copy": begin, "data.copy.more": more, "data.copy.end": end}
