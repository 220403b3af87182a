"""The verb that says what this server has."""

from __future__ import annotations

from pathlib import Path

import click

from kerneltui.cli import options
from kerneltui.cli.output import print_json, print_lines
from kerneltui.cli.runs import find_named
from kerneltui.cli.situation import server_report


@click.command()
@options.python
@options.server
@options.as_json
@options.runs_dir
def doctor(python: Path | None, server: Path | None, as_json: bool, runs_dir: Path | None) -> None:
    """Say what is wrong with this server, and what it has: GPUs, driver, torch, packages, Hub."""
    from kerneltui.advice.finding import is_blocked
    from kerneltui.advice.health import judge_server
    from kerneltui.advice.show import finding_lines
    from kerneltui.facts.report import report_lines

    machine = server_report(python, server, runs_dir)
    findings = judge_server(machine)
    if as_json:
        print_json(machine)
    else:
        print_lines([*finding_lines(findings), "", *report_lines(machine)])
    if is_blocked(findings):
        raise SystemExit(1)


@click.command()
@click.argument("run", required=False)
@click.option("--output", type=click.Path(path_type=Path), help="The file to write; else in this directory.")
@options.python
@options.server
@options.runs_dir
@options.as_json
def report(
    run: str | None,
    output: Path | None,
    python: Path | None,
    server: Path | None,
    runs_dir: Path | None,
    as_json: bool,
) -> None:
    """Write one file without secrets to attach to an issue: this server, or a run with the server it started on."""
    from kerneltui.runs.report import run_report, server_report_text, write_report

    if run is None:
        text = server_report_text(server_report(python, server, runs_dir))
    else:
        found = find_named(run, runs_dir)
        text = run_report(found)
    path = write_report(text, output or Path("kerneltui-report.md" if run is None else f"kerneltui-{found.name}.md"))
    print_json({"schema": 1, "path": str(path)}) if as_json else click.echo(f"Wrote {path}")
