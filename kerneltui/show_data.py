"""The rows of a data set as the trainer sees them, as plain lines; and what they add up to."""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from rich.cells import cell_len, chop_cells

from kerneltui.advice.finding import SIGNS
from kerneltui.data_report import DataReport, Part
from kerneltui.facts.copying import Copied
from kerneltui.facts.prepared import Example, Piece, Prepared
from kerneltui.facts.totals import median
from kerneltui.plan.edit import edit_config
from kerneltui.text import plain, plain_line, sure_width

MARKS = {"loss": "▌", "context": " ", "cut": "×", "padding": "○", "hidden": "…"}
"""The sign before each line of a row: what becomes of its tokens."""

LEGEND = "▌ counts for the loss   × cut off   ○ padding"

# Buckets of a histogram at most, and the steps between which their width is chosen.
_BUCKETS = 8
_STEPS = (1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500)
_EIGHTHS = " ▏▎▍▌▋▊▉"


class Line(NamedTuple):
    """A line of a row; `mark` is a key of MARKS."""

    mark: str
    text: str


class Bucket(NamedTuple):
    """How many sequences (`number`) have `low` to `high` tokens, both included."""

    low: int
    high: int
    number: int


def row_lines(example: Example, width: int, *, padding: int = 0, pad: str | None = None) -> list[Line]:
    """Return a sequence as text, its pieces one below the other, then the padding that its batch gives it."""
    found = [line for piece in example.pieces for line in _piece_lines(piece, width)]
    if padding:
        found.append(Line("padding", f"{padding} times {plain_line(pad or 'padding')}"))
    return found


def token_lines(example: Example, width: int) -> list[Line]:
    """Return a sequence token by token: its place, its number, its text with the escapes of a Python string."""
    found: list[Line] = []
    at = 0
    for piece in example.pieces:
        if not piece.ids and piece.count:
            found.append(Line("hidden", f"{piece.count} tokens are not shown"))
        for place, (token, text) in enumerate(zip(piece.ids, piece.tokens, strict=True), at):
            words = sure_width(repr(text)[1:-1])
            found.append(Line(_mark(piece), chop_cells(f"{place:>6} {token:>7}  {words}", width)[0]))
        at += piece.count
    return found


def stored_lines(row: Mapping[str, Any], width: int) -> list[Line]:
    """Return a row as it is stored, column by column."""
    found: list[Line] = []
    for name, value in row.items():
        found.append(Line("context", f"{plain_line(name)}:"))
        for text in _texts(value):
            found += [Line("context", f"  {line}") for line in wrap(text, width - 2)]
    return found


def _texts(value: Any) -> Iterator[str]:
    """Give the lines of a value: a message as `role: content`, the rest as it is written in Python."""
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        for item in value:
            role, content = item.get("role") or item.get("from"), item.get("content") or item.get("value")
            yield f"{role}: {content}" if role else str(item)
    else:
        yield value if isinstance(value, str) else str(value)


def _piece_lines(piece: Piece, width: int) -> Iterator[Line]:
    if not piece.ids and piece.count:
        yield Line("hidden", f"{piece.count} tokens are not shown")
        return
    for line in wrap(piece.text.removesuffix("\n"), width):
        yield Line(_mark(piece), line)


def _mark(piece: Piece) -> str:
    return "cut" if not piece.kept else "loss" if piece.loss else "context"


def wrap(text: str, width: int) -> list[str]:
    """Return a text from outside as lines of at most so many cells, broken where it is and where they are full."""
    lines = [sure_width(line).expandtabs(4) for line in plain(text).split("\n")]
    return [part for line in lines for part in (chop_cells(line, max(2, width)) if line else [""])]


def buckets(lengths: Mapping[int, int]) -> list[Bucket]:
    """Return a histogram of lengths: equal buckets, or doubling ones where a few sequences are far longer."""
    if not lengths:
        return []
    longest, middle = max(lengths), median(lengths)
    if longest > 8 * max(1, middle):
        first = 2 ** max(0, math.ceil(math.log2(longest + 1)) - _BUCKETS + 1)
        edges = [0, *(first * 2**number for number in range(_BUCKETS))]
    else:
        start, step = _equal(min(lengths), longest)
        edges = [start + step * number for number in range(_BUCKETS + 1)]
    edges = edges[: next(number for number, edge in enumerate(edges) if edge > longest) + 1]
    counts = [
        sum(count for length, count in lengths.items() if low <= length < high)
        for low, high in itertools.pairwise(edges)
    ]
    return [Bucket(low, high - 1, count) for (low, high), count in zip(itertools.pairwise(edges), counts, strict=True)]


def histogram_lines(lengths: Mapping[int, int], width: int, limit: int | None = None) -> list[str]:
    """Return a histogram of lengths in tokens, a bar a line; the bucket in which `limit` lies is marked with ◀."""
    found = buckets(lengths)
    most = max((bucket.number for bucket in found), default=0)
    digits = max((len(str(bucket.high)) for bucket in found), default=1)
    room = max(4, width - 2 * digits - len(f"{most:,}") - 6)
    lines = []
    for low, high, count in found:
        bar = _bar(count / most if most else 0, room)
        limited = " ◀" if limit is not None and low <= limit <= high else "  "
        lines.append(f"{low:>{digits}}–{high:<{digits}} {bar}{limited} {count:>{len(f'{most:,}')},}")
    return lines


def total_lines(report: DataReport) -> list[tuple[str, str]]:
    """Return what the rows add up to, as names and values; an estimate says that it is one."""
    data, sums, batch = report.data, report.totals, report.batch
    if data is None:
        return []
    scanned = report.scan is not None and report.scan.done and not report.scan.refused
    made, total = data.prepared, sums.rows if scanned else data.total
    found = [("rows", _rows(sums.rows, total, data.counted, scanned))]
    if not sums.sequences:
        return found
    found.append(("lengths", f"median {sums.median:,}, longest {sums.longest:,} tokens"))
    if sums.max_length is not None:
        found.append(("cut", f"{_share(sums.cut_share)} go beyond max_length {sums.max_length:,}"))
    if sums.left_out:
        found.append(("left out", f"{sums.left_out:,} rows, too long or without a token to learn"))
    if sums.loss_share is not None:
        found.append(("loss", f"counts {_share(sums.loss_share)} of the tokens"))
    if (epoch := sums.epoch_tokens(total)) is not None:
        exact = scanned or (data.counted and sums.rows == total)
        found.append(("an epoch", f"{epoch:,} tokens" if exact else f"about {epoch:,} tokens, by these rows"))
    if sums.density is not None:
        verb = "fills" if sums.packs else "would fill"
        found.append(("packing", f"{verb} {_share(sums.density)} of {sums.packed:,} sequences"))
    if made is not None and not sums.packs and batch > 1:
        found.append(("padding", f"{_share(made.padding(batch))} in batches of {batch}"))
    return found


def padding_of(made: Prepared, example: Example, batch: int) -> int:
    """Return how many padding tokens a sequence gets in batches of `batch` rows in their order; none when packed."""
    if made.packed is not None or batch < 2:
        return 0

    def kept(tokens: int) -> int:
        return tokens if made.max_length is None else min(tokens, made.max_length)

    left = [row for row in dict.fromkeys(it.row for it in made.sequences) if row not in made.dropped]
    if example.row not in left:
        return 0
    first = left.index(example.row) // batch * batch
    beside = left[first : first + batch]
    longest = max(kept(it.tokens) for it in made.sequences if it.row in beside)
    return longest - kept(example.length)


def report_lines(report: DataReport, *, width: int, examples: int) -> list[str]:
    """Return a look at data as plain lines, its first `examples` rows token by token."""
    lines = [part for text in _head(report) for part in textwrap.wrap(plain_line(text), width, subsequent_indent="  ")]
    lines += [part for text in map(part_line, report.parts) for part in wrap(f"  {text}", width)]
    data = report.data
    if data is None:
        return [*lines, "", *wrap(report.error or "", width)]
    lines += [f"{name:<9} {value}" for name, value in total_lines(report)]
    if data.prepared is None:
        lines += ["", *wrap(f"… not tokenized: {plain_line(data.no_tokens or '')}", width)]
        for number, row in enumerate(data.rows[:examples], 1):
            lines += [
                "",
                f"row {number}, as it is stored",
                *(f"  {line.text}" for line in stored_lines(row, width - 2)),
            ]
        return lines
    limit = report.totals.max_length
    lines += ["", "tokens of a sequence", *histogram_lines(report.totals.lengths, min(width, 72), limit)]
    for example in data.prepared.examples:
        if example.row <= examples:
            padding = padding_of(data.prepared, example, report.batch)
            shown = row_lines(example, width - 2, padding=padding, pad=data.prepared.pad)
            lines += ["", example_title(example, data.prepared)]
            lines += [f"{MARKS[line.mark]} {line.text}".rstrip() for line in shown]
    return [*lines, "", LEGEND]


def _head(report: DataReport) -> Iterator[str]:
    sign = {True: SIGNS["ready"], False: SIGNS["block"], None: SIGNS["unknown"]}[report.fit.ok]
    data = report.data
    if data is not None:
        yield f"{data.name} · {data.split} · {data.kind}"
    yield f"{sign} {report.trainer}: {report.fit.reason}"
    if report.mapping is not None:
        yield f"→ `kerneltui data … --write auto` makes a copy with {report.mapping.words}"
    if data is not None:
        yield f"columns   {', '.join(f'{column.name} ({column.type})' for column in data.columns)}"


def copied_lines(copied: Copied) -> list[str]:
    """Return what was copied, and how a configuration reads it."""
    gone = [name for name, value in copied.changes.items() if value is None]
    there = {name: value for name, value in copied.changes.items() if value is not None}
    leave = f", and leave out {', '.join(gone)}" if gone else ""
    return [
        f"{SIGNS['ready']} {copied.rows:,} rows are in {plain_line(copied.folder)}: {plain_line(copied.mapping.words)}",
        f"Write in the configuration{leave}:",
        *edit_config("", there).splitlines(),
    ]


def part_line(part: Part) -> str:
    """Return a part of a mixture in one line: its sign, what it is, whether the trainer could read it alone."""
    sign = {True: SIGNS["ready"], False: SIGNS["block"], None: SIGNS["unknown"]}[part.fit.ok]
    parts = [part.name, part.configuration, part.split, f"share {part.share:g}" if part.share is not None else None]
    return f"{sign} {' · '.join(plain_line(text) for text in parts if text)}: {plain_line(part.fit.reason)}"


def example_title(example: Example, made: Prepared) -> str:
    """Return which sequence it is, and how it fares, in one line."""
    found = next(it for it in made.sequences if (it.row, it.name) == (example.row, example.name))
    parts = [f"row {example.row}, {example.name}", f"{found.tokens:,} tokens"]
    if found.loss_tokens is not None:
        parts.append(f"{found.loss_tokens:,} count for the loss")
    parts.append(f"with {plain_line(made.eos or '')}" if found.has_eos else "no end-of-sequence token")
    if example.row in made.dropped:
        parts.append("left out")
    return " · ".join(parts)


def _rows(read: int, total: int | None, counted: bool, scanned: bool) -> str:
    if scanned:
        return f"{read:,}, all of them read"
    if total is None:
        return f"{read:,} read; how many there are is not known"
    return f"{read:,} read of {'' if counted else 'about '}{total:,}"


def _share(share: float) -> str:
    """Return a share in percent; what is not nothing or not all is not shown as such."""
    percent = round(share * 100)
    if percent in (0, 100) and share not in (0, 1):
        return "< 1 %" if percent == 0 else "> 99 %"
    return f"{percent} %"


def _bar(share: float, room: int) -> str:
    eighths = max(1, round(share * room * 8)) if share else 0
    bar = "█" * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")
    return bar + " " * (room - cell_len(bar))


def _equal(low: int, high: int) -> tuple[int, int]:
    """Return the start and the width of equal buckets with round edges that hold all from `low` to `high`."""
    steps = [step * 10**power for power in range(0, 9, 3) for step in _STEPS]
    for step in steps:
        start = low // step * step
        if start + step * _BUCKETS > high:
            return start, step
    return 0, high + 1
