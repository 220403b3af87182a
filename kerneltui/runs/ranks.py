"""What the training processes of an attempt wrote of themselves: each rank's start and its end."""

from __future__ import annotations

from typing import Any


class Ranks:
    """Gathers `process_start` and `process_end` of one attempt; of a rank that was started anew the last one counts."""

    def __init__(self, attempt: int) -> None:
        self.attempt = attempt
        self._last: dict[int, dict[str, Any]] = {}

    def add(self, event: dict[str, Any]) -> None:
        """Take in an event of the run; those of other kinds and attempts are left out."""
        if event.get("attempt") == self.attempt and event.get("event") in ("process_start", "process_end"):
            rank = _whole(event.get("rank")) or 0
            self._last.pop(rank, None)  # so that they stay in the order in which they wrote
            self._last[rank] = event

    @property
    def started(self) -> bool:
        """Whether any rank has started."""
        return bool(self._last)

    def ends(self) -> list[dict[str, Any]]:
        """Return the last words, the first rank to end first."""
        return [event for event in self._last.values() if event["event"] == "process_end"]

    def silent(self) -> dict[int, int | None]:
        """Return the ranks that started and have not written their end, each with its process id."""
        return {
            rank: _whole(event.get("pid")) for rank, event in self._last.items() if event["event"] == "process_start"
        }


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None
