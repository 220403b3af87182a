"""The verb that says what the Hub has for this server."""

from __future__ import annotations

from pathlib import Path

import click

from kerneltui.cli import options
from kerneltui.cli.output import print_json, print_lines, progress
from kerneltui.cli.situation import server_report
from kerneltui.errors import HubError, UsageError


@click.command()
@click.argument("repository", required=False, metavar="[REPO[@REV]]")
@click.option("--owner", help="List the kernels of this publisher instead of kernels-community.")
@click.option("--search", metavar="TEXT", help="List the kernels of all publishers with this text in their name.")
@click.option("--all", "everything", is_flag=True, help="Judge kernels for other things than attention too.")
@options.python
@options.server
@options.as_json
def kernels(
    repository: str | None,
    owner: str | None,
    search: str | None,
    everything: bool,
    python: Path | None,
    server: Path | None,
    as_json: bool,
) -> None:
    """List the Hub's kernels with a verdict for this server, or judge the revisions of one repository."""
    from kerneltui.browse.browser import KernelBrowser
    from kerneltui.facts.hub import Hub, check_repository
    from kerneltui.interpreter import Asker, find_interpreter
    from kerneltui.paths import hub_answers
    from kerneltui.show_kernels import kernel_list_lines, repository_lines

    if repository is not None and (owner or search or everything):
        raise UsageError(
            "A repository is not a list", "--owner, --search and --all are for the list.", "Leave one out."
        )
    name, _, revision = (repository or "").partition("@")
    if repository is not None:
        check_repository(name)
    hub = Hub(folder=hub_answers())
    with progress() as tell, Asker(find_interpreter(python)) as asker:
        machine = server_report(python, server, None, tell)
        browser = KernelBrowser(asker, hub, machine, elsewhere=server is not None)
        tell(f"asking the Hub about {repository or 'kernels'}")
        if repository is None:
            author = None if search else owner or "kernels-community"
            found = browser.rows(author, text=search or "", everything=everything)
        else:
            view = browser.view(name, revision or None)
    if repository is not None:
        print_json(view) if as_json else print_lines(repository_lines(view, revision=revision or None))
        return
    refused = found.error if not found.repositories else None
    if refused:
        raise HubError(refused.kind, refused.title, refused.message, refused.hint)
    print_json(found) if as_json else print_lines(kernel_list_lines(found))
