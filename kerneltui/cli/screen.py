"""Opening the full screen."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kerneltui.errors import UsageError

if TYPE_CHECKING:
    from kerneltui.runs.directory import RunDirectory


def full_screen(
    python: Path | None, server: Path | None, runs_dir: Path | None, *, watch: RunDirectory | None = None
) -> None:
    """Run the app, and print what it leaves to say, such as how to find a run again."""
    from kerneltui.facts.server import Server
    from kerneltui.interpreter import find_interpreter
    from kerneltui.paths import runs_directory
    from kerneltui.records import read_record
    from kerneltui.tui.app import KerneltuiApp

    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "The full screen needs a terminal", "Input or output is not one.", "`kerneltui --help` lists the commands."
        )
    recorded = read_record(server, Server) if server is not None else None
    app = KerneltuiApp(find_interpreter(python), runs_directory(runs_dir), recorded=recorded, watch=watch)
    said = app.run()
    if said:
        click.echo(said)
    sys.exit(app.return_code)
