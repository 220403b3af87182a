"""The verbs that say what is there: on this server, and on the Hub for it."""

from __future__ import annotations

from pathlib import Path

import click

from kerneltui.cli import options
from kerneltui.cli.output import print_json, print_lines, progress
from kerneltui.cli.situation import server_report


@click.command()
@options.python
@options.as_json
@options.runs_dir
def doctor(python: Path | None, as_json: bool, runs_dir: Path | None) -> None:
    """Report what this server has: GPUs, driver, torch, packages."""
    from kerneltui.facts.report import report_lines

    server = server_report(python, None, runs_dir)
    print_json(server) if as_json else print_lines(report_lines(server))


@click.command()
@click.argument("repository", required=False, metavar="[REPO[@REV]]")
@options.python
@options.server
@options.as_json
def kernels(repository: str | None, python: Path | None, server: Path | None, as_json: bool) -> None:
    """List the kernel repositories of kernels-community, or judge one repository's revisions for this server."""
    from kerneltui.facts.builds import judge_repository
    from kerneltui.facts.hub import Hub, check_repository
    from kerneltui.interpreter import Asker, find_interpreter
    from kerneltui.show import build_lines, repository_lines

    hub = Hub()
    if repository is None:
        found = hub.list_kernels()
        print_json({"schema": 1, "repositories": found}) if as_json else print_lines(repository_lines(found))
        return
    check_repository(repository.partition("@")[0])
    with progress() as tell, Asker(find_interpreter(python)) as asker:
        machine = server_report(python, server, None, tell)
        tell(f"asking the Hub about {repository}")
        builds = judge_repository(asker, hub, repository, machine, elsewhere=server is not None)
    print_json({"schema": 1, "builds": builds}) if as_json else print_lines(build_lines(builds, machine))
