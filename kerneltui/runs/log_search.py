"""Looking for lines in a log of any size: in bounded slices from a place upwards or downwards, never all at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kerneltui.runs.log import LINE_BYTES, to_line

# Bytes that are read at a time; and bytes and lines that an excerpt has on each side of its line.
_SLICE = 1 << 18
_AROUND, _LINES = 1 << 17, 500

Read = Callable[[int, int], bytes]
Stop = Callable[[], bool]


@dataclass(frozen=True)
class Excerpt:
    """The lines around one of a log: `number` is its place among `lines`, `offsets` where each begins in the file.

    `size` is how long the file was, in bytes, `ends` whether the lines reach to its end. Each line stands by itself:
    a progress bar that moved the cursor up is not drawn over the line above.
    """

    path: Path
    lines: tuple[str, ...]
    offsets: tuple[int, ...]
    number: int
    size: int
    ends: bool

    @property
    def offset(self) -> int:
        """Where the line begins that the excerpt was made for."""
        return self.offsets[self.number]


def find(
    path: Path, place: int | None, matches: Callable[[str], object], *, up: bool, stop: Stop = lambda: False
) -> int | None:
    """Return where the nearest line begins that matches above or below the one at `place`; None where none does.

    `place` None is the end of the file. Lines are looked at as they are shown. `stop` is asked at each slice; where it
    says so, nothing is found. Raises OSError where the file cannot be read.
    """
    with path.open("rb") as file:
        size = file.seek(0, 2)
        start = size if place is None else place

        def read(at: int, count: int) -> bytes:
            file.seek(at)
            return file.read(count)

        for offset, line in (_upwards if up else _downwards)(read, start, size, stop):
            if offset != start and matches(to_line(line)):
                return offset
    return None


def excerpt(path: Path, offset: int) -> Excerpt:
    """Return the lines around the one that begins at `offset`. Raises OSError where the file cannot be read."""
    with path.open("rb") as file:
        size = file.seek(0, 2)

        def read(at: int, count: int) -> bytes:
            file.seek(at)
            return file.read(count)

        above, _ = _some(line for line in _upwards(read, offset, size) if line[0] != offset)
        below, ends = _some(_downwards(read, offset, size))
    found = [*reversed(above), *below]
    return Excerpt(
        path=path,
        lines=tuple(line for _, line in found),
        offsets=tuple(at for at, _ in found),
        number=min(len(above), max(0, len(found) - 1)),
        size=size,
        ends=ends,
    )


def _some(lines: Iterator[tuple[int, bytes]]) -> tuple[list[tuple[int, str]], bool]:
    """Return the first of some lines as they are shown, as many as an excerpt has, and whether these are all."""
    found: list[tuple[int, str]] = []
    for at, line in lines:
        # From the second on: the line that is looked at may itself be of any length.
        if len(found) > _LINES or (len(found) > 1 and abs(at - found[1][0]) > _AROUND):
            return found, False
        found.append((at, to_line(line)))
    return found, True


def _downwards(read: Read, at: int, size: int, stop: Stop = lambda: False) -> Iterator[tuple[int, bytes]]:
    """Yield the lines from the one that begins at `at` to the end of the file, each with where it begins."""
    begin, rest = at, b""
    while at < size and not stop():
        data = read(at, min(_SLICE, size - at))
        if not data:  # the file was cut meanwhile
            return
        *lines, last = data.split(b"\n")
        for line in lines:
            yield begin, rest + line
            at, rest = at + len(line) + 1, b""
            begin = at
        at, rest = at + len(last), _ends(rest + last)
    if rest and at >= size:
        yield begin, rest


def _upwards(read: Read, end: int, size: int, stop: Stop = lambda: False) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that begin at or before `end`, the last first, each with where it begins."""
    end, rest = min(end, size), b""
    while end > 0 and not stop():
        start = max(0, end - _SLICE)
        first, *lines = read(start, end - start).split(b"\n")
        at = end
        for line in reversed(lines):
            at -= len(line)
            yield at, line + rest
            at, rest = at - 1, b""
        end, rest = start, _ends(first + rest)
    if end == 0:
        yield 0, rest


def _ends(line: bytes) -> bytes:
    """Return a line, or of a very long one both ends, which are all that is shown of it."""
    return line if len(line) <= 2 * LINE_BYTES else line[:LINE_BYTES] + line[-LINE_BYTES:]
