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
@click.argument("words", nargs=-1)
@click.option("--sort", "by", default=None, help="age, name, loss, speed, hours, state, model or trainer.")
@options.runs_dir
@options.as_json
def runs(words: tuple[str, ...], by: str | None, runs_dir: Path | None, as_json: bool) -> None:
    """List the runs: the live ones first, then the newest; and say where else there are some.

    WORDS narrow the list: by name, state, trainer, model, attention or remark; #word by a tag.
    """
    from kerneltui.paths import runs_directory
    from kerneltui.runs.find import runs_elsewhere
    from kerneltui.runs.orphans import find_orphans
    from kerneltui.runs.select import SORTS, filter_views, sort_views
    from kerneltui.runs.view import view_runs
    from kerneltui.show import elsewhere_lines, run_lines
    from kerneltui.show_runs import orphan_lines

    if by is not None and by not in SORTS:
        raise UsageError(
            f"Runs cannot be sorted by {by!r}", f"There are {', '.join(SORTS)}.", "Choose one with --sort."
        )
    directory = runs_directory(runs_dir)
    every, elsewhere = view_runs(directory), runs_elsewhere(directory)
    views = filter_views(every, " ".join(words))
    views = sort_views(views, by) if by else views
    if as_json:
        print_json({"schema": 1, "runs": views, "elsewhere": elsewhere, "orphans": find_orphans()})
    elif every and not views:
        print_lines([f"None of the {len(every)} runs in {directory} has all of: {' '.join(words)}"])
    else:
        print_lines([*run_lines(views, directory), *orphan_lines(find_orphans()), *elsewhere_lines(elsewhere)])


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


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="RUN RUN…")
@options.runs_dir
@options.as_json
def compare(names: tuple[str, ...], runs_dir: Path | None, as_json: bool) -> None:
    """Put runs side by side: what differs in settings, kernel and packages, and what came of each."""
    from kerneltui.runs.compare import compare as compare_runs
    from kerneltui.show_runs import comparison_lines

    if len(names) < 2:
        raise UsageError("One run is not compared", hint="Name two or more: kerneltui compare RUN RUN")
    found = compare_runs([find_named(name, runs_dir) for name in names])
    if as_json:
        print_json({"schema": 1, "comparison": found})
    else:
        print_lines(comparison_lines(found))


@click.command()
@options.run
@click.argument("tags", nargs=-1)
@click.option("--remove", multiple=True, metavar="TAG", help="Take this tag away.")
@click.option("--remark", help="A remark to keep with the run; an empty one takes it away.")
@options.runs_dir
def tag(run: str, tags: tuple[str, ...], remove: tuple[str, ...], remark: str | None, runs_dir: Path | None) -> None:
    """Give a run tags, or a remark; without any, say what it has."""
    from kerneltui.runs.notes import change_notes, read_notes

    found = find_named(run, runs_dir)
    asked = bool(tags or remove or remark is not None)
    notes = change_notes(found, add=tags, remove=remove, remark=remark) if asked else read_notes(found)
    shown = " ".join(f"#{tag}" for tag in notes.tags) or "no tags"
    click.echo(f"{_told(found, runs_dir)}: {shown}" + (f" · {notes.remark}" if notes.remark else ""))


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="RUN…")
@click.option("--yes", is_flag=True, help="Do not ask.")
@options.runs_dir
def delete(names: tuple[str, ...], yes: bool, runs_dir: Path | None) -> None:
    """Remove runs that have ended, with their checkpoints and models; asks first, and says how large they are."""
    from kerneltui.fetch import gigabytes
    from kerneltui.runs.delete import delete as delete_run
    from kerneltui.runs.delete import plan_deletion

    for found in [plan_deletion(find_named(name, runs_dir)) for name in names]:
        kept = f"; its output in {found.kept} stays" if found.kept else ""
        question = f"Remove {_told(found.run, runs_dir)} ({gigabytes(found.size)}{kept})?"
        if yes or click.confirm(question, err=True):
            delete_run(found)
            click.echo(f"Removed {found.run.name} ({gigabytes(found.size)}){kept}.")


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
