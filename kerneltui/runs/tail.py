"""Reading files that grow, by offset and in bounded slices: nothing is read twice, and nothing is read at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

# A line longer than this is no record of ours; it is dropped, so that a broken file cannot fill the memory. Bytes.
_LONGEST = 8 << 20
# How much is read at a time where all is wanted, in bytes.
_SLICE = 1 << 20


class Tail:
    """What was added to a file since the last look. `from_end` starts so many bytes before its present end.

    `behind` tells whether the last `read` left something for the next one. `offset` is the place of the next byte.
    """

    def __init__(self, path: Path, *, from_end: int | None = None) -> None:
        self.path = path
        self.behind = False
        self.offset = max(0, self.size() - from_end) if from_end is not None else 0

    def size(self) -> int:
        """Return the file's size in bytes; 0 where it does not exist."""
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    def read(self, limit: int) -> bytes:
        """Return at most `limit` new bytes; none where there is no file yet. A file that was cut is read anew."""
        try:
            with self.path.open("rb") as file:
                size = file.seek(0, 2)
                self.offset = self.offset if self.offset <= size else 0
                file.seek(self.offset)
                data = file.read(limit)
        except OSError:
            self.behind = False
            return b""
        self.offset += len(data)
        self.behind = self.offset < size
        return data


class JsonTail:
    """The JSON objects that were added to a file of JSON lines; half a line is not yet written, an empty one is none.

    `skipped` counts lines that are no JSON object.
    """

    def __init__(self, path: Path, *, from_end: int | None = None) -> None:
        self.skipped = 0
        self._tail = Tail(path, from_end=from_end)
        self._rest: bytes | None = b"" if self._tail.offset == 0 else None  # None: in the middle of a line

    @property
    def behind(self) -> bool:
        """Whether the last `read` left something for the next one."""
        return self._tail.behind

    def read(self, limit: int) -> list[dict[str, Any]]:
        """Return the objects of the lines that end within the next `limit` bytes."""
        data = self._tail.read(limit)
        if not data:
            return []
        if self._rest is None:
            _, newline, data = data.partition(b"\n")
            if not newline:
                return []
            self._rest = b""
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest if len(rest) <= _LONGEST else None
        self.skipped += self._rest is None
        return [value for line in lines if line and (value := self._decode(line)) is not None]

    def read_all(self) -> list[dict[str, Any]]:
        """Return the objects of all lines that were completed since the last look, reading one slice after another."""
        found = self.read(_SLICE)
        while self.behind:
            found += self.read(_SLICE)
        return found

    def _decode(self, line: bytes) -> dict[str, Any] | None:
        try:
            value = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            self.skipped += 1
            return None
        if not isinstance(value, dict):
            self.skipped += 1
            return None
        return value
