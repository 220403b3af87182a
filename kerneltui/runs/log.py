"""The log of a run: its last lines at once from a file of any size, then what is added. Harmless to a terminal."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass
from pathlib import Path

from kerneltui.runs.tail import Tail
from kerneltui.text import plain, sure_width

# Bytes that one `poll` reads, and how far behind the end it may be before it leaves something out.
_SLICE = 1 << 18
_BEHIND = 1 << 22
# The first look reads the first of these amounts that gives enough lines. Bytes.
_FIRST = (1 << 18, 1 << 21, 1 << 24)
_ENOUGH = 100
# What is kept: lines, characters of a line, characters in all. The bytes of a line that may become its characters.
_LINES = 5000
_LONGEST = 2000
_CHARACTERS = 2_000_000
LINE_BYTES = 1 << 16
# Cursor up, with which progress bars are drawn below one another; and how many lines it reaches at most.
_UP = re.compile(rb"\x1b\[(\d*)A")
REWRITABLE = 20
_TAB = 8


@dataclass(frozen=True)
class LogView:
    """The lines that are kept; `first` is the number of the first of them among all that were read, from 0.

    From one view to a later one of the same `path` only the last `REWRITABLE` + 1 lines of the older change; the
    others stay, or go.
    """

    path: Path | None = None
    first: int = 0
    lines: tuple[str, ...] = ()
    behind: bool = False


class LogTail:
    """Reads one log. A line that a carriage return rewrites is one line, in its last state, as it is on a terminal."""

    def __init__(self, path: Path, *, lines: int = _LINES) -> None:
        self.path = path
        self._limit = lines
        self._tail: Tail | None = None
        # The last line is the one that is being written, maybe still empty; the cursor is `_up` lines above it.
        self._lines: deque[str] = deque([""])
        self._up = 0
        self._first = 0
        self._characters = 0
        self._rest = b""
        self._in_line = False
        self._view = LogView()

    def poll(self) -> LogView:
        """Read what was added, a bounded slice of it, and return the lines; the same view where nothing was."""
        if self._tail is None:
            self._tail, data = self._start()
        else:
            waiting = self._tail.size() - self._tail.offset
            if waiting > _BEHIND:
                self._skip(self._tail, waiting - _SLICE)
            data = self._tail.read(_SLICE)
        if data or self._tail.behind != self._view.behind:
            self._add(data)
            shown = list(self._lines)
            self._view = LogView(self.path, self._first, tuple(shown if shown[-1] else shown[:-1]), self._tail.behind)
        return self._view

    def _start(self) -> tuple[Tail, bytes]:
        """Return the file at its end, and what stands before it: enough for a screen, as far as that is bounded."""
        for size in _FIRST:
            tail = Tail(self.path, from_end=size)
            self._in_line = tail.offset > 0
            data = tail.read(size)
            if not self._in_line or data.count(b"\n") >= _ENOUGH:
                break
        return tail, data

    def _skip(self, tail: Tail, size: int) -> None:
        """Leave out `size` bytes that are too many to be read in time, and say so."""
        tail.offset += size
        self._rest, self._up, self._in_line = b"", 0, True
        for text in (f"… {size / 1e6:.1f} MB of the log are not shown …", ""):
            self._lines.append(text)
            self._characters += len(text)

    def _add(self, data: bytes) -> None:
        if self._in_line and b"\n" in data:
            data = data.partition(b"\n")[2]
        self._in_line = False
        *lines, rest = (self._rest + data).split(b"\n")
        # Of more lines than are kept the first need no decoding.
        spare = max(0, len(lines) - self._limit - REWRITABLE)
        self._first += spare
        for line in lines[spare:]:
            self._write(line)
            self._end_line()
        self._rest = _newest(rest)
        up = self._up
        self._write(self._rest, ended=False)
        self._up = up

    def _write(self, line: bytes, *, ended: bool = True) -> None:
        """Write what stands between two newlines, or so far after the last one, at the cursor."""
        parts = _UP.split(line) if b"\x1b[" in line else [line]
        self._put(parts[0], ended)
        for count, part in zip(parts[1::2], parts[2::2], strict=True):
            self._up = min(self._up + int(count[:3] or b"1"), REWRITABLE, len(self._lines) - 1)
            self._put(part, ended)

    def _put(self, data: bytes, ended: bool) -> None:
        if not data:
            return
        text = to_line(data)
        if text or ended:  # between two states a progress bar is blank for a moment
            self._characters += len(text) - len(self._lines[-1 - self._up])
            self._lines[-1 - self._up] = text

    def _end_line(self) -> None:
        if self._up:
            self._up -= 1
            return
        self._lines.append("")
        while len(self._lines) > self._limit or self._characters > _CHARACTERS:
            self._characters -= len(self._lines.popleft())
            self._first += 1


def to_line(data: bytes) -> str:
    """Return a line of a log as characters that a terminal only draws, in its last state, at a sane length."""
    if data.isascii() and len(data) <= _LONGEST and (simple := data.decode()).isprintable():
        return simple.rstrip()
    text = data[-LINE_BYTES:] if b"\r" in data[-LINE_BYTES:-1] else data[:LINE_BYTES]
    state = text.rstrip(b"\r").rpartition(b"\r")[2].decode("utf-8", "replace")
    line = sure_width(plain(state)).expandtabs(_TAB).rstrip()
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


def _newest(rest: bytes) -> bytes:
    """Return the end of a line that has no end yet, without the states of it that are no longer seen."""
    if len(rest) <= LINE_BYTES:
        return rest
    state = rest.rstrip(b"\r").rpartition(b"\r")[2]
    return state[:LINE_BYTES]
