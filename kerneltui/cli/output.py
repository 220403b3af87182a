"""What the verbs print: lines, one JSON document, what is being done now, and errors."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from kerneltui.errors import KerneltuiError

if TYPE_CHECKING:
    from kerneltui.interpreter import ProgressCallback


@contextlib.contextmanager
def progress() -> Iterator[ProgressCallback]:
    """Give a function that shows what is being done now, on one line of a terminal's standard error."""
    shown = sys.stderr.isatty()

    def tell(text: str) -> None:
        if shown:
            sys.stderr.write(f"\r\x1b[K{text} …")
            sys.stderr.flush()

    try:
        yield tell
    finally:
        if shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def print_json(value: object) -> None:
    """Print one JSON document and nothing else."""
    from kerneltui.records import to_json

    sys.stdout.write(to_json(value).decode())


def print_lines(lines: Iterable[str], *, err: bool = False) -> None:
    """Print lines, with `err` on standard error."""
    for line in lines:
        click.echo(line, err=err)


def tell_error(error: KerneltuiError) -> None:
    """Print on standard error what went wrong, why, and what to do next."""
    from kerneltui.text import plain

    click.echo(f"✖ {plain(error.title)}", err=True)
    for part in (error.message, error.hint):
        for line in plain(part).splitlines():
            click.echo(f"  {line}", err=True)
