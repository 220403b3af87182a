"""The command line: every verb without a screen."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from kerneltui import __version__
from kerneltui.errors import KerneltuiError, UsageError

_PATH = click.Path(path_type=Path)

# `TRAINER [CONFIG] [TRL flags]`: flags that are not ours are TRL's.
_plan_command = {"context_settings": {"ignore_unknown_options": True}}
_trainer = click.argument("trainer")
_arguments = click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[CONFIG] [TRL FLAGS]")
_run = click.argument("run")
_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
_python = click.option(
    "--python", type=_PATH, help="The training interpreter, or the folder of its virtual environment."
)
_server = click.option("--server", type=_PATH, help="A server report that `doctor --json` wrote.")
_runs_dir = click.option("--runs-dir", type=_PATH, help="The directory of the runs.")
_gpus = click.option("--gpus", help="GPUs to use, by number in PCI bus order: 0,1")
_name = click.option("--name", help="The run's name.")
_wait = click.option("--wait", is_flag=True, help="Follow the run and end with its result.")


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(version)s")
@_python
@_server
@_runs_dir
@click.pass_context
def app(context: click.Context, python: Path | None, server: Path | None, runs_dir: Path | None) -> None:
    """Train with TRL on the fastest attention kernel that really works on this GPU server.

    Without a command: the full screen.
    """
    if context.invoked_subcommand is None:
        _full_screen(python, server, runs_dir)
    given = {"python": python, "server": server, "runs_dir": runs_dir}
    context.default_map = {name: {k: v for k, v in given.items() if v is not None} for name in app.commands}


def main() -> None:
    """Run the command; errors that a person can mend are told without a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that cannot show a sign gets a question mark
            stream.reconfigure(errors="replace")
    try:
        code = app(prog_name="kerneltui", standalone_mode=False)
        sys.stdout.flush()
    except KerneltuiError as error:
        _tell_error(error)
        code = error.exit_code
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        code = 130
    except BrokenPipeError:  # whoever read our output has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except OSError as error:
        _tell_error(KerneltuiError("Cannot write the output", error.strerror or str(error)))
        code = 1
    raise SystemExit(code)


@app.command()
@_python
@_json
@_runs_dir
def doctor(python: Path | None, as_json: bool, runs_dir: Path | None) -> None:
    """Report what this server has: GPUs, driver, torch, packages."""
    from kerneltui.facts.report import report_lines

    server = _read_server(python, None, runs_dir)
    _print_json(server) if as_json else _print_lines(report_lines(server))


@app.command()
@click.argument("repository", required=False, metavar="[REPO[@REV]]")
@_python
@_server
@_json
def kernels(repository: str | None, python: Path | None, server: Path | None, as_json: bool) -> None:
    """List the kernel repositories of kernels-community, or judge one repository's revisions for this server."""
    from kerneltui.facts.builds import judge_repository
    from kerneltui.facts.hub import Hub, check_repository
    from kerneltui.interpreter import Asker, find_interpreter
    from kerneltui.show import build_lines, repository_lines

    hub = Hub()
    if repository is None:
        found = hub.list_kernels()
        _print_json({"schema": 1, "repositories": found}) if as_json else _print_lines(repository_lines(found))
        return
    check_repository(repository.partition("@")[0])
    with _progress() as tell, Asker(find_interpreter(python)) as asker:
        machine = _read_server(python, server, None, tell)
        tell(f"asking the Hub about {repository}")
        builds = judge_repository(asker, hub, repository, machine, elsewhere=server is not None)
    _print_json({"schema": 1, "builds": builds}) if as_json else _print_lines(build_lines(builds, machine))


@app.command(**_plan_command)
@_trainer
@_arguments
@_python
@_server
@_gpus
@_json
def check(
    trainer: str, arguments: tuple[str, ...], python: Path | None, server: Path | None, gpus: str | None, as_json: bool
) -> None:
    """Say what would fail or train the wrong thing, and what would really run."""
    from kerneltui.advice.show import finding_lines
    from kerneltui.show import will_run_lines

    with _assessed(_plan(trainer, arguments, gpus=gpus), python, server) as (_, assessment):
        if as_json:
            _print_json(assessment)
        else:
            _print_lines([*finding_lines(assessment.findings), "", *will_run_lines(assessment.will_run)])
    if assessment.blocked:
        raise SystemExit(1)


@app.command(**_plan_command)
@_trainer
@_arguments
@_name
@_gpus
@click.option("--force", is_flag=True, help="Launch past a block.")
@_wait
@_python
@_runs_dir
@_json
def launch(
    trainer: str,
    arguments: tuple[str, ...],
    name: str | None,
    gpus: str | None,
    force: bool,
    wait: bool,
    python: Path | None,
    runs_dir: Path | None,
    as_json: bool,
) -> None:
    """Start training in its own session."""
    from kerneltui.paths import runs_directory

    plan = _plan(trainer, arguments, name=name, gpus=gpus)
    _launch(plan, python, runs_directory(runs_dir), force=force, wait=wait, as_json=as_json)


@app.command()
@_wait
@click.option("--steps", type=click.IntRange(min=1), default=20, show_default=True, help="Optimizer steps to train.")
@_name
@_python
@_runs_dir
@_json
def demo(wait: bool, steps: int, name: str | None, python: Path | None, runs_dir: Path | None, as_json: bool) -> None:
    """Train the embedded tiny model on its own attention kernel, without a network, on a GPU or the CPU."""
    from kerneltui.paths import check_run_name, runs_directory
    from kerneltui.plan.demo import demo_plan

    if name is not None:
        check_run_name(name)
    machine = _read_server(python, None, runs_dir)
    plan = demo_plan(machine, steps=steps, name=name)
    _launch(plan, python, runs_directory(runs_dir), force=False, wait=wait, as_json=as_json, machine=machine)


@app.command()
@_runs_dir
@_json
def runs(runs_dir: Path | None, as_json: bool) -> None:
    """List the runs: the live ones first, then the newest."""
    from kerneltui.paths import runs_directory
    from kerneltui.runs.view import view_runs
    from kerneltui.show import run_lines

    directory = runs_directory(runs_dir)
    views = view_runs(directory)
    _print_json({"schema": 1, "runs": views}) if as_json else _print_lines(run_lines(views, directory))


@app.command()
@_run
@click.option("--plain", is_flag=True, help="One line a change, for logs and screen readers.")
@_runs_dir
def watch(run: str, plain: bool, runs_dir: Path | None) -> None:
    """Open the live pane of a run; leaving it leaves the run alone. In a pipe, or with --plain: one line a change."""
    found = _find(run, runs_dir)
    if plain or not sys.stdout.isatty():
        _follow(found)
    else:
        _full_screen(None, None, found.path.parent, watch=found)


@app.command()
@_run
@click.option("--now", is_flag=True, help="End it at once, without a checkpoint.")
@_runs_dir
def stop(run: str, now: bool, runs_dir: Path | None) -> None:
    """Stop a run at its next optimizer step, with a checkpoint and the final model saved; or at once."""
    from kerneltui.runs.control import ask_run

    found = _find(run, runs_dir)
    ask_run(found, "kill" if now else "stop")
    click.echo(f"Asked {found.name} to {'end at once' if now else 'stop at its next step, with a checkpoint'}.")


@app.command()
@_run
@_runs_dir
def checkpoint(run: str, runs_dir: Path | None) -> None:
    """Save a checkpoint at the next optimizer step and go on."""
    from kerneltui.runs.control import ask_run

    found = _find(run, runs_dir)
    ask_run(found, "checkpoint")
    click.echo(f"Asked {found.name} for a checkpoint at its next step.")


@app.command(**_plan_command)
@_trainer
@_arguments
@click.option("--as", "form", default="shell", show_default=True, help="shell, yaml or python.")
@_python
@_gpus
def export(trainer: str, arguments: tuple[str, ...], form: str, python: Path | None, gpus: str | None) -> None:
    """Print the same training for other hands."""
    from kerneltui.interpreter import Asker, find_interpreter
    from kerneltui.plan.forms import FORMS, as_python, as_shell, as_yaml
    from kerneltui.plan.settings import read_settings

    if form not in FORMS:
        raise UsageError(f"No form {form!r}", f"There are {', '.join(FORMS)}.", "Choose one with --as.")
    plan = _plan(trainer, arguments, gpus=gpus)
    if form == "shell":
        click.echo(as_shell(plan), nl=False)
        return
    with Asker(find_interpreter(python)) as asker:
        settings = read_settings(plan, asker)
    click.echo(as_yaml(plan, settings) if form == "yaml" else as_python(plan, settings), nl=False)


def _full_screen(python: Path | None, server: Path | None, runs_dir: Path | None, *, watch: Any = None) -> None:
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
    said = KerneltuiApp(find_interpreter(python), runs_directory(runs_dir), recorded=recorded, watch=watch).run()
    if said:
        click.echo(said)


def _plan(trainer: str, arguments: tuple[str, ...], *, name: str | None = None, gpus: str | None = None) -> Any:
    from kerneltui.paths import check_run_name
    from kerneltui.plan.plan import Launch, make_plan

    if name is not None:
        check_run_name(name)
    return make_plan(trainer, list(arguments), launch=Launch(name=name, gpus=_gpu_numbers(gpus)))


def _gpu_numbers(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() for part in parts) or len(set(map(int, parts))) < len(parts):
        raise UsageError(
            f"{text!r} is no list of GPUs", "Each is one number, once.", "Give them in PCI bus order: --gpus 0,1"
        )
    return tuple(map(int, parts))


def _launch(
    plan: Any, python: Path | None, runs: Path, *, force: bool, wait: bool, as_json: bool, machine: Any = None
) -> None:
    from kerneltui.advice.show import finding_lines
    from kerneltui.interpreter import find_interpreter
    from kerneltui.runs.launch import launch as launch_run
    from kerneltui.show import will_run_lines

    with _assessed(plan, python, None, machine=machine) as (situation, assessment):
        if assessment.findings:
            _print_lines(finding_lines(assessment.findings), err=True)
        run = launch_run(situation, assessment, runs, find_interpreter(python), forced=force)
        _print_lines(will_run_lines(assessment.will_run), err=True)
    if as_json:
        _print_json({"schema": 1, "name": run.name, "path": str(run.path)})
    else:
        click.echo(f"{run.name} is running. Find it again with: kerneltui watch {shlex.quote(str(run.path))}")
    if wait:
        _follow(run, quiet=as_json)


def _follow(run: Any, *, quiet: bool = False) -> None:
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


def _find(name: str, runs_dir: Path | None) -> Any:
    from kerneltui.paths import runs_directory
    from kerneltui.runs.directory import find_run

    return find_run(runs_directory(runs_dir), name)


@contextlib.contextmanager
def _assessed(plan: Any, python: Path | None, server: Path | None, *, machine: Any = None) -> Iterator[tuple[Any, Any]]:
    """Give the situation and the assessment of a plan."""
    from kerneltui.assess import assess, find_out
    from kerneltui.facts.hub import Hub
    from kerneltui.interpreter import Asker, find_interpreter

    with Asker(find_interpreter(python), environment=plan.environment) as asker:
        with _progress() as tell:
            asker.prepare()
            machine = machine or _read_server(python, server, None, tell)
            seen = plan.environment
            hub = Hub(seen.get("HF_ENDPOINT"), token=seen.get("HF_TOKEN"))
            situation = find_out(plan, machine, asker, hub, on_progress=tell, elsewhere=server is not None)
        yield situation, assess(situation)


def _read_server(python: Path | None, file: Path | None, runs_dir: Path | None, tell: Any = None) -> Any:
    from kerneltui.facts.read_server import read_server
    from kerneltui.facts.server import Server
    from kerneltui.interpreter import find_interpreter
    from kerneltui.paths import runs_directory
    from kerneltui.records import read_record

    if file is not None:
        return read_record(file, Server)
    with contextlib.nullcontext(tell) if tell else _progress() as on_progress:
        return read_server(find_interpreter(python), on_progress=on_progress, runs_dir=runs_directory(runs_dir))


@contextlib.contextmanager
def _progress() -> Iterator[Any]:
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


def _print_json(value: object) -> None:
    from kerneltui.records import to_json

    sys.stdout.write(to_json(value).decode())


def _print_lines(lines: list[str], *, err: bool = False) -> None:
    for line in lines:
        click.echo(line, err=err)


def _tell_error(error: KerneltuiError) -> None:
    from kerneltui.text import plain

    click.echo(f"✖ {plain(error.title)}", err=True)
    for part in (error.message, error.hint):
        for line in plain(part).splitlines():
            click.echo(f"  {line}", err=True)
