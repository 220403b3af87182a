"""The files of a run that the training process writes: one JSON object a line, appended in one write."""

from __future__ import annotations

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
        raised = None
        if error is not None:
            lines = traceback.format_exception(error)
            raised = {
                "type": type(error).__name__,
                "message": str(error),
                "traceback": "".join(lines)[-8000:],
            }
        self.event("process_end", outcome=outcome, error=raised)

    def _append(self, name: str, values: dict[str, Any]) -> None:
        line = {
            "time": datetime.now().astimezone().isoformat(timespec="milliseconds"),
            "attempt": self.attempt,
            **values,
        }
        data = (json.dumps(_finite(line), default=str, ensure_ascii=False) + "\n").encode("utf-8", "replace")
        try:
            # One write to a file opened for appending: lines of several processes do not mix.
            descriptor = os.open(self.run / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(descriptor, data)
            finally:
                os.close(descriptor)
        except OSError as error:
            print(f"kerneltui: could not write {name}: {error.strerror}", flush=True)


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
