"""The files of a run that the training process writes: one JSON object a line, appended in one write."""

from __future__ import annotations

import contextlib
import json
import math
import os
import traceback
from datetime import datetime
from pathlib import Path
from typing import Any


class Record:
    """Appends to `metrics.jsonl` and `events.jsonl` of one attempt of a run.

    A line that cannot be written (disk full) is dropped with a word in the log: the record must not end the training.
    """

    def __init__(self, run: Path, attempt: int, rank: int) -> None:
        self.run = run
        self.attempt = attempt
        self.rank = rank

    def event(self, name: str, **values: Any) -> None:
        """Append an event: what happened, in which attempt and rank."""
        self._append("events.jsonl", {"event": name, "rank": self.rank, **values})

    def metrics(self, kind: str, **values: Any) -> None:
        """Append a line of metrics; `kind` is "log" (what the trainer logged) or "progress"."""
        self._append("metrics.jsonl", {"kind": kind, **values})

    def end(self, outcome: str, error: BaseException | None = None) -> None:
        """Append the end of this process: "finished", "stopped", "failed" or "interrupted", and what it raised."""
        self.event("process_end", outcome=outcome, error=None if error is None else describe(error))

    def _append(self, name: str, values: dict[str, Any]) -> None:
        line = {
            "time": datetime.now().astimezone().isoformat(timespec="milliseconds"),
            "attempt": self.attempt,
            **values,
        }
        data = (json.dumps(_finite(line), default=str, ensure_ascii=False) + "\n").encode("utf-8", "replace")
        try:
            append(self.run / name, data)
        except OSError as error:
            # The log may lie on the same full disk.
            with contextlib.suppress(OSError, ValueError):
                print(f"kerneltui: could not write {name}: {error.strerror or error}", flush=True)


def describe(error: BaseException) -> dict[str, str]:
    """Return the type of an exception, its message, and the end of its traceback."""
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - an exception of a library that cannot tell its own message
        message = ""
    return {
        "type": type(error).__name__,
        "message": message,
        "traceback": "".join(traceback.format_exception(error))[-8000:],
    }


def append(path: Path, line: bytes) -> None:
    """Append a line to a file in one write, so that lines of several processes do not mix. Raises OSError.

    Where the file ends within a line (the disk was full, whoever wrote), the new one begins on a line of its own.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            line = b"\n" + line
        if os.write(descriptor, line) < len(line):
            raise OSError(f"the disk took a part of a line of {len(line)} bytes")
    finally:
        os.close(descriptor)


def _finite(value: Any) -> Any:
    """Return `value` with NaN and the infinities as the strings "NaN", "Infinity" and "-Infinity": JSON has none."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return _finite(value.item())
    return value
