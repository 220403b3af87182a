"""Several slow things read at the same time, each with a deadline, none of which can hold up the others."""

from __future__ import annotations

import enum
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple


class _Late(enum.Enum):
    LATE = enum.auto()


LATE: Final = _Late.LATE


class Source(NamedTuple):
    """Something to read: `read` gives one value or several, one after the other, within `deadline` seconds in all."""

    name: str
    read: Callable[[], Iterable[Any]]
    deadline: float


class _End(NamedTuple):
    """The end of a source, with what it raised."""

    error: BaseException | None


def gather(sources: Sequence[Source]) -> Iterator[tuple[str, Any]]:
    """Return the name of each source with each value, as they come; `LATE` is the value of one that takes too long.

    Raises what a source raises. The threads are daemons: a call that hangs in a driver or in a lost network disk
    cannot be ended, and the program must still be able to.
    """
    values: queue.Queue[tuple[str, Any]] = queue.Queue()
    started = time.monotonic()
    waiting = {source.name: started + source.deadline for source in sources}
    for source in sources:
        threading.Thread(target=_read, args=(source, values), daemon=True, name=f"reading {source.name}").start()
    while waiting:
        next_deadline = min(waiting.values())
        try:
            name, value = values.get(timeout=max(0.0, next_deadline - time.monotonic()))
        except queue.Empty:
            late = next(name for name, deadline in waiting.items() if deadline == next_deadline)
            del waiting[late]
            yield late, LATE
            continue
        if name not in waiting:
            continue
        if isinstance(value, _End):
            del waiting[name]
            if value.error:
                raise value.error
        else:
            yield name, value


def _read(source: Source, values: queue.Queue[tuple[str, Any]]) -> None:
    error = None
    try:
        for value in source.read():
            values.put((source.name, value))
    except BaseException as raised:  # noqa: BLE001 - raised again where the values are wanted
        error = raised
    values.put((source.name, _End(error)))
