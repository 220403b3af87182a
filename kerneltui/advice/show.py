"""Findings as plain lines for terminals, pipes and logs: no colour, no control sequences."""

from __future__ import annotations

import json
import shutil
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

import yaml

from kerneltui.advice.finding import SIGNS, Finding, Fix
from kerneltui.text import plain, plain_line

_INDENT = "  "


def finding_lines(findings: Sequence[Finding], *, width: int | None = None) -> list[str]:
    """Return the findings as lines of at most `width` cells (None: the terminal's): title, why, fixes, source.

    What one copies out of a terminal (a change, a command, an address) stays whole, however long it is.
    """
    width = max(40, width or shutil.get_terminal_size((100, 24)).columns)
    if not findings:
        return [f"{SIGNS['ready']} Nothing found that would fail"]
    lines = [line for finding in findings for line in [*_finding(finding, width), ""]]
    return [*lines, summary(findings)]


def summary(findings: Sequence[Finding]) -> str:
    """Return the number of findings of each severity in one line."""
    names = {"block": "blocks", "warn": "warnings", "note": "notes"}
    counts = {name: sum(finding.severity == name for finding in findings) for name in names}
    return "  ".join(
        f"{SIGNS[name]} {count} {names[name] if count != 1 else names[name][:-1]}"
        for name, count in counts.items()
        if count
    )


def fix_text(fix: Fix) -> str:
    """Return what a fix changes, on one line: YAML, what is removed, or the command."""
    if fix.command:
        return _line(fix.command)
    removed = [name for name, value in fix.changes.items() if value is None]
    written = [f"{name}: {_value(value)}" for name, value in fix.changes.items() if value is not None]
    parts = [*written, *(f"{name}: null" for name in fix.nulls)]
    if removed:
        parts.append(f"remove {', '.join(removed)}")
    return _line("; ".join(parts))


def _finding(finding: Finding, width: int) -> Iterator[str]:
    yield from _wrap(finding.title, width, f"{SIGNS[finding.severity]} ", _INDENT)
    for paragraph in plain(finding.why).splitlines():
        yield from _wrap(paragraph, width, _INDENT, _INDENT)
    for fix in finding.fixes:
        yield from _fix(fix, width)
    yield f"{_INDENT}source: {_line(finding.source)}"


def _fix(fix: Fix, width: int) -> Iterator[str]:
    """Give the label and the change on one line where it fits; else the change has a line of its own."""
    label, text = _line(fix.label), fix_text(fix)
    whole = [f"Set {name} to {_value(value)}" for name, value in fix.changes.items()]
    if not text or text.lower() == label.lower() or [label] == whole:
        yield f"{_INDENT}→ {label}"
        return
    sign = "$ " if fix.command else ""
    line = f"{_INDENT}→ {label}: {sign}{text}"
    if cells(line) <= width:
        yield line
    else:
        yield from _wrap(f"{label}:", width, f"{_INDENT}→ ", _INDENT * 2)
        yield f"{_INDENT * 2}{sign}{text}"


def _line(text: str) -> str:
    """Return a text as plain characters on one line, without tabs, which take an unknown number of cells."""
    return plain_line(text).replace("\t", " ")


def _value(value: Any) -> str:
    """Return a value as YAML on one line."""
    if isinstance(value, str):
        return str(yaml.safe_dump(value, allow_unicode=True, width=2**16)).removesuffix("\n...\n").strip()
    return json.dumps(value, ensure_ascii=False, default=str)


def _wrap(text: str, width: int, first: str, others: str) -> Iterator[str]:
    """Give the lines of a paragraph; a word that is wider than a line stays whole."""
    line, empty = first, True
    for word in _line(text).split():
        if not empty and cells(line) + 1 + cells(word) > width:
            yield line
            line, empty = others, True
        line += word if empty else f" {word}"
        empty = False
    yield line.rstrip()


def cells(text: str) -> int:
    """Return how many cells of a terminal a text takes: two for wide characters, none for combining ones."""
    return sum(_cells(character) for character in text)


def _cells(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
