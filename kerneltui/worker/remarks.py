"""What the libraries warn of in the training process, as events of its record; the log has it as well."""

from __future__ import annotations

import logging
import warnings
from typing import Any

from .record import Record

# So many different ones are recorded, each once and cut to this length.
_MOST, _LONGEST = 50, 2000


def note_warnings(record: Record) -> None:
    """Record each different warning of this process, of Python's `warnings` and of `logging`, from now on.

    Both go on as before: what a library prints, and how, stays as it is.
    """
    seen: set[str] = set()

    def note(kind: str, place: str, message: str) -> None:
        message = message[:_LONGEST]
        if message not in seen and len(seen) < _MOST:
            seen.add(message)
            record.event("warning", kind=kind, place=place, message=message)

    show, make = warnings.showwarning, logging.getLogRecordFactory()

    def showing(message: Any, category: Any, filename: str, lineno: int, *more: Any, **options: Any) -> None:
        note(category.__name__, f"{filename}:{lineno}", str(message))
        show(message, category, filename, lineno, *more, **options)

    def making(*arguments: Any, **options: Any) -> logging.LogRecord:
        made = make(*arguments, **options)
        if made.levelno >= logging.WARNING:
            note(made.levelname, made.name, _message(made))
        return made

    warnings.showwarning = showing
    logging.setLogRecordFactory(making)


def _message(made: logging.LogRecord) -> str:
    try:
        return made.getMessage()
    except Exception:  # noqa: BLE001 - arguments that do not fit their format; logging itself tells of those
        return str(made.msg)
