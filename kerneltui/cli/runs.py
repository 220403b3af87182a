"""The verbs on runs that were started."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kerneltui.cli import options
from kerneltui.cli.output import print_json, print_lines
from kerneltui.cli.screen import full_screen
from kerneltui.errors import UsageError

if TYPE_CHECKING:
    from kerneltui.runs.directory import RunDirectory


@click.command()
@options.runs_dir
@options.as_json
def runs(runs_dir: Path | None, as_json: bool) -> None:
    """List the runs: the live ones first, then the newest; and say where else there are some."""
    from kerneltui.paths import runs_directory
    from kerneltui.runs.find import runs_elsewhere
    from kerneltui.runs.view import view_runs
    from kerneltui.show import elsewhere_lines, run_lines

    directory = runs_directory(runs_dir)
    views, elsewhere = view_runs(directory), runs_elsewhere(directory)
    if as_json:
        print_json({"schema": 1, "runs": views, "elsewhere": elsewhere})
    else:
        print_lines([*run_lines(views, directory), *elsewhere_lines(elsewhere)])


@click.command()
@options.run
@click.option("--plain", is_flag=True, help="One line a change, for logs and screen readers.")
@options.runs_dir
def watch(run: str, plain: bool, runs_dir: Path | None) -> None:
    """Open the live pane of a run; leaving it leaves the run alone. In a pipe, or with --plain: one line a change."""
    found = find_named(run, runs_dir)
    if plain or not sys.stdout.isatty():
        follow_run(found)
    else:
        full_screen(None, None, found.path.parent, watch=found)


@click.command()
@options.run
@click.option("--now", is_flag=True, help="End it at once, without a checkpoint.")
@options.runs_dir
def stop(run: str, now: bool, runs_dir: Path | None) -> None:
    """Stop a run at its next optimizer step, with a checkpoint and the final model saved; or at once."""
    from kerneltui.runs.control import ask_run

    found = find_named(run, runs_dir)
    ask_run(found, "kill" if now else "stop")
    click.echo(
        f"Asked {_told(found, runs_dir)} to {'end at once' if now else 'stop at its next step, with a checkpoint'}."
    )


@click.command()
@options.run
@options.runs_dir
def checkpoint(run: str, runs_dir: Path | None) -> None:
    """Save a checkpoint at the next optimizer step and go on."""
    from kerneltui.runs.control import ask_run

    found = find_named(run, runs_dir)
    ask_run(found, "checkpoint")
    click.echo(f"Asked {_told(found, runs_dir)} for a checkpoint at its next step.")


@click.command(context_settings=options.PASS_ON)
@options.run
@click.argument("flags", nargs=-1, type=click.UNPROCESSED, metavar="[TRL FLAGS]")
@click.option("--gone", is_flag=True, help="The machine that it ran on is gone for good.")
@options.wait
@options.runs_dir
@options.as_json
def resume(run: str, flags: tuple[str, ...], gone: bool, wait: bool, runs_dir: Path | None, as_json: bool) -> None:
    """Go on with a run that was stopped or has failed, from its newest checkpoint that is whole.

    It becomes the next attempt of the same run. TRL flags override those that it was started with.
    """
    from kerneltui.runs.resume import plan_resumption
    from kerneltui.runs.resume import resume as start

    _refuse_loose(flags)
    found = find_named(run, runs_dir)
    resumption = plan_resumption(found, gone=gone)
    start(resumption, flags)
    if as_json:
        chosen, passed = resumption.checkpoint, resumption.passed_over
        print_json(
            {
                "schema": 1, "name": found.name, "path": str(found.path), "attempt": resumption.attempt,
                "step": chosen.step, "checkpoint": str(chosen.path),
                "passed_over": [{"path": str(old.path), "reasons": old.faults} for old in passed],
            }
        )  # fmt: skip
    else:
        print_lines([f"{_told(found, runs_dir)} goes on, attempt {resumption.attempt},", *resumption.words])
    if wait:
        follow_run(found, quiet=as_json)


def _refuse_loose(flags: tuple[str, ...]) -> None:
    """Raise UsageError where a word stands before the first flag: it would be no flag's value."""
    if flags and not flags[0].startswith("--"):
        raise UsageError(f"{flags[0]!r} is no flag of TRL", hint="Write: kerneltui resume RUN [--flag value …]")


def follow_run(run: RunDirectory, *, quiet: bool = False) -> None:
    """Print the run's lines until its end and exit with its result; Ctrl-C leaves the run alone."""
    from kerneltui.runs.follow import follow

    try:
        for line in follow(run):
            if not quiet:
                click.echo(line)
    except KeyboardInterrupt:
        click.echo(f"\n{run.name} goes on. Find it again with: kerneltui watch {shlex.quote(str(run.path))}", err=True)
        raise SystemExit(130) from None
    if run.read_state().phase not in ("finished", "stopped"):
        raise SystemExit(1)


def find_named(name: str, runs_dir: Path | None) -> RunDirectory:
    """Return the run of that name, in this directory or where else runs were started. Raises UsageError."""
    from kerneltui.paths import runs_directory
    from kerneltui.runs.find import find_run

    # A directory that is named is meant; otherwise a run is found wherever it was started.
    return find_run(runs_directory(runs_dir), name, elsewhere=runs_dir is None)


def _told(run: RunDirectory, runs_dir: Path | None) -> str:
    """Return the run's name, with the place of one that is not among those of this directory."""
    from kerneltui.paths import runs_directory

    return run.name if run.path.parent == runs_directory(runs_dir) else f"{run.name} in {run.path.parent}"
