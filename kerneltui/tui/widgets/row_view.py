"""A row of data on screen, marked by what becomes of its tokens; the colours only repeat the signs."""

from __future__ import annotations

import re

from textual.content import Content

from kerneltui.advice.finding import SIGNS
from kerneltui.data_report import DataReport
from kerneltui.facts.prepared import Example
from kerneltui.facts.totals import Totals
from kerneltui.show_data import (
    LEGEND,
    MARKS,
    Line,
    example_title,
    histogram_lines,
    padding_of,
    row_lines,
    stored_lines,
    token_lines,
)
from kerneltui.text import plain_line

MODES = ("text", "tokens", "stored")
"""How a row can be shown: as the text that the trainer reads, token by token, or as it is stored."""

_COLOURS = {"loss": "$primary", "context": "$foreground", "cut": "$secondary", "padding": "$secondary"}
_VERDICTS = {True: ("ready", "$success"), False: ("block", "$error"), None: ("unknown", "$secondary")}


def report_line(report: DataReport) -> Content:
    """Return what the data is and whether the trainer can read it, in one line."""
    kind, colour = _VERDICTS[report.fit.ok]
    data = report.data
    told = f"{data.split} · {data.kind}  " if data else ""
    return Content.assemble(told, (f"{SIGNS[kind]} ", colour), plain_line(f"{report.trainer}: {report.fit.reason}"))


def row_title(report: DataReport, at: int, mode: str) -> tuple[str, str]:
    """Return which row it is of how many that were read, and how it is shown."""
    rows = len(report.data.rows) if report.data else 0
    return (f"Row {at + 1} of {rows} read" if rows else "Rows"), mode


def row_content(report: DataReport, at: int, mode: str, width: int) -> Content:
    """Return a row (from 0): its sequences one below the other, and how each of them fares."""
    data = report.data
    if data is None:
        return Content(plain_line(report.error or ""))
    found = [example for example in _examples(report) if example.row == at + 1]
    if mode == "stored" or not found:
        stored = [_styled(line) for line in stored_lines(data.rows[at], width - 2)]
        why = data.no_tokens
        told = [Content.styled(f"… as it is stored; not tokenized: {plain_line(why)}\n", "$secondary")] if why else []
        if report.mapping is not None:
            words = f" writes a copy with {plain_line(report.mapping.words)}\n"
            told.append(Content.assemble(("m", "bold $primary"), words))
        return Content("\n").join([*told, *stored])
    parts = [line for example in found for line in (*_sequence(report, example, mode, width), Content(""))]
    return Content("\n").join([*parts, Content.styled(LEGEND, "$secondary")])


def histogram_content(sums: Totals, width: int) -> list[Content]:
    """Return a histogram of the lengths of sequences, the bucket of max_length marked."""
    lines = histogram_lines(sums.lengths, width, sums.max_length)
    return [_bar(line) for line in lines]


def _bar(line: str) -> Content:
    label, blank, rest = line.partition(" ")
    if "█" not in line or not label.strip():
        return Content(line)
    return Content.assemble((label, "$secondary"), blank, rest)


def _examples(report: DataReport) -> tuple[Example, ...]:
    made = report.data.prepared if report.data else None
    return made.examples if made else ()


def _sequence(report: DataReport, example: Example, mode: str, width: int) -> list[Content]:
    made = report.data.prepared if report.data else None
    assert made is not None
    title = Content.styled(example_title(example, made), "bold")
    if mode == "tokens":
        return [title, *(_styled(line) for line in token_lines(example, width - 2))]
    padding = padding_of(made, example, report.batch)
    lines = row_lines(example, width - 2, padding=padding, pad=made.pad)
    return [title, *(_styled(line, end=plain_line(made.eos or "")) for line in lines)]


def _styled(line: Line, end: str = "") -> Content:
    """Return a line with its sign, and the end-of-sequence token reversed."""
    colour = _COLOURS.get(line.mark, "$secondary")
    shown = Content.styled(line.text, colour)
    if end and line.mark in ("loss", "context"):
        shown = shown.highlight_regex(re.escape(end), style="reverse")
    return Content.assemble((f"{MARKS[line.mark]} ", colour), shown)
