"""The command line: every verb without a screen."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from kerneltui import __version__
from kerneltui.errors import KerneltuiError, UsageError

app = typer.Typer(
    name="kerneltui",
    help="Train with TRL on the fastest attention kernel that really works on this GPU server.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
)

# `TRAINER [CONFIG] [TRL flags]`: flags that are not ours are TRL's.
_PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}

Trainer = Annotated[str, typer.Argument(metavar="TRAINER", help="A trainer of the installed TRL, such as sft or dpo.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Python = Annotated[
    Path | None,
    typer.Option("--python", help="The training interpreter, or the folder of its virtual environment."),
]
ServerFile = Annotated[Path | None, typer.Option("--server", help="A server report that `doctor --json` wrote.")]
RunsDir = Annotated[Path | None, typer.Option("--runs-dir", help="The directory of the runs.")]
Run = Annotated[str, typer.Argument(metavar="RUN", help="The run's name, or the path of its directory.")]
Gpus = Annotated[str | None, typer.Option("--gpus", help="GPUs to use, by number in PCI bus order: 0,1")]


def main() -> None:
    """Run the command; errors that a person can mend are told without a traceback."""
    try:
        app()
    except KerneltuiError as error:
        _tell_error(error)
        raise SystemExit(error.exit_code) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except BrokenPipeError:
        raise SystemExit(0) from None


@app.callback(invoke_without_command=True)
def start(
    version: Annotated[bool, typer.Option("--version", help="Print the version and end.")] = False,
) -> None:
    """Train with TRL on the fastest attention kernel that really works on this GPU server."""
    if version:
        typer.echo(__version__)
        raise typer.Exit


@app.command()
def doctor(python: Python = None, as_json: Json = False, runs_dir: RunsDir = None) -> None:
    """Report what this server has: GPUs, driver, torch, packages."""
    from kerneltui.facts.report import report_lines

    server = _read_server(python, None, runs_dir)
    if as_json:
        _print_json(server)
    else:
        _print_lines(report_lines(server))


@app.command()
def kernels(
    repository: Annotated[str | None, typer.Argument(metavar="[REPO[@REV]]", help="A kernel repository.")] = None,
    python: Python = None,
    server: ServerFile = None,
    as_json: Json = False,
) -> None:
    """List the kernel repositories of kernels-community, or judge one repository's branches for this server."""
    from kerneltui.facts.builds import judge_repository
    from kerneltui.facts.hub import Hub
    from kerneltui.interpreter import Asker, find_interpreter
    from kerneltui.show import build_lines, repository_lines

    hub = Hub()
    if repository is None:
        found = hub.list_kernels()
        _print_json({"schema": 1, "repositories": found}) if as_json else _print_lines(repository_lines(found))
        return
    with _progress() as tell, Asker(find_interpreter(python)) as asker:
        machine = _read_server(python, server, None, tell)
        tell(f"asking the Hub about {repository}")
        builds = judge_repository(asker, hub, repository, machine)
    _print_json({"schema": 1, "builds": builds}) if as_json else _print_lines(build_lines(builds))


@app.command(context_settings=_PASS_ON)
def check(
    context: typer.Context, trainer: Trainer, python: Python = None, server: ServerFile = None, as_json: Json = False,
    gpus: Gpus = None,
) -> None:  # fmt: skip
    """Say what would fail or train the wrong thing, and what would really run: TRAINER [CONFIG] [TRL flags]."""
    from kerneltui.advice.show import finding_lines
    from kerneltui.show import will_run_lines

    with _assessed(_plan(trainer, context.args, gpus=gpus), python, server) as (_, assessment):
        if as_json:
            _print_json(assessment)
        else:
            _print_lines([*finding_lines(assessment.findings), "", *will_run_lines(assessment.will_run)])
        raise typer.Exit(1 if assessment.blocked else 0)


@app.command(context_settings=_PASS_ON)
def launch(
    context: typer.Context,
    trainer: Trainer,
    name: Annotated[str | None, typer.Option("--name", help="The run's name.")] = None,
    gpus: Gpus = None,
    force: Annotated[bool, typer.Option("--force", help="Launch past a block.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Follow the run and end with its result.")] = False,
    python: Python = None,
    runs_dir: RunsDir = None,
    as_json: Json = False,
) -> None:
    """Start training in its own session: TRAINER [CONFIG] [TRL flags]."""
    from kerneltui.paths import runs_directory

    plan = _plan(trainer, context.args, name=name, gpus=gpus)
    _launch(plan, python, runs_directory(runs_dir), force=force, wait=wait, as_json=as_json)


@app.command()
def demo(
    wait: Annotated[bool, typer.Option("--wait", help="Follow the run and end with its result.")] = False,
    steps: Annotated[int, typer.Option("--steps", min=1, help="Optimizer steps to train.")] = 20,
    name: Annotated[str | None, typer.Option("--name", help="The run's name.")] = None,
    python: Python = None,
    runs_dir: RunsDir = None,
    as_json: Json = False,
) -> None:
    """Train the embedded tiny model on its own attention kernel, without a network, on a GPU or the CPU."""
    from kerneltui.paths import runs_directory
    from kerneltui.plan.demo import demo_plan

    runs = runs_directory(runs_dir)
    with _progress() as tell:
        machine = _read_server(python, None, runs_dir, tell)
    plan = demo_plan(machine, steps=steps, name=name)
    _launch(plan, python, runs, force=False, wait=wait, as_json=as_json, server=machine)


@app.command()
def runs(runs_dir: RunsDir = None, as_json: Json = False) -> None:
    """List the runs: the live ones first, then the newest."""
    from kerneltui.paths import runs_directory
    from kerneltui.runs.view import view_runs
    from kerneltui.show import run_lines

    directory = runs_directory(runs_dir)
    views = view_runs(directory)
    if as_json:
        _print_json({"schema": 1, "runs": views})
    else:
        _print_lines(run_lines(views, directory))


@app.command()
def watch(
    run: Run,
    plain: Annotated[bool, typer.Option("--plain", help="One line a change, for logs and screen readers.")] = True,
    runs_dir: RunsDir = None,
) -> None:
    """Follow a run from its first record to its end; leaving it leaves the run alone."""
    found = _find(run, runs_dir)
    _follow(found)


@app.command()
def stop(
    run: Run,
    now: Annotated[bool, typer.Option("--now", help="End it at once, without a checkpoint.")] = False,
    runs_dir: RunsDir = None,
) -> None:
    """Stop a run at its next optimizer step, with a checkpoint and the final model saved; or at once."""
    from kerneltui.runs.control import ask_run

    found = _find(run, runs_dir)
    ask_run(found, "kill" if now else "stop")
    typer.echo(
        f"Asked {found.name} to end at once."
        if now
        else f"Asked {found.name} to stop at its next step, with a checkpoint."
    )


@app.command()
def checkpoint(run: Run, runs_dir: RunsDir = None) -> None:
    """Save a checkpoint at the next optimizer step and go on."""
    from kerneltui.runs.control import ask_run

    found = _find(run, runs_dir)
    ask_run(found, "checkpoint")
    typer.echo(f"Asked {found.name} for a checkpoint at its next step.")


@app.command(context_settings=_PASS_ON)
def export(
    context: typer.Context,
    trainer: Trainer,
    form: Annotated[str, typer.Option("--as", help="shell, yaml or python.")] = "shell",
    python: Python = None,
    gpus: Gpus = None,
) -> None:
    """Print the same training for other hands: TRAINER [CONFIG] [TRL flags]."""
    from kerneltui.interpreter import Asker, find_interpreter
    from kerneltui.plan.forms import FORMS, as_python, as_shell, as_yaml
    from kerneltui.plan.settings import read_settings

    if form not in FORMS:
        raise UsageError(f"No form {form!r}", f"There are {', '.join(FORMS)}.", "Choose one with --as.")
    plan = _plan(trainer, context.args, gpus=gpus)
    if form == "shell":
        typer.echo(as_shell(plan), nl=False)
        return
    with Asker(find_interpreter(python)) as asker:
        settings = read_settings(plan, asker)
    typer.echo(as_yaml(plan, settings) if form == "yaml" else as_python(plan, settings), nl=False)


def _plan(trainer: str, arguments: list[str], *, name: str | None = None, gpus: str | None = None) -> Any:
    from kerneltui.paths import check_run_name
    from kerneltui.plan.plan import Launch, make_plan

    if name is not None:
        check_run_name(name)
    return make_plan(trainer, arguments, launch=Launch(name=name, gpus=_gpu_numbers(gpus)))


def _gpu_numbers(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UsageError(
            f"{text!r} is no list of GPUs", hint="Give numbers in PCI bus order, such as --gpus 0,1"
        ) from None


def _launch(
    plan: Any, python: Path | None, runs: Path, *, force: bool, wait: bool, as_json: bool, server: Any = None
) -> None:
    from kerneltui.advice.show import finding_lines
    from kerneltui.interpreter import find_interpreter
    from kerneltui.runs.launch import launch as launch_run

    with _assessed(plan, python, None, machine=server) as (situation, assessment):
        if assessment.findings and not as_json:
            _print_lines(finding_lines(assessment.findings), err=True)
        run = launch_run(situation, assessment, runs, find_interpreter(python), forced=force)
    if as_json:
        _print_json({"schema": 1, "name": run.name, "path": str(run.path)})
    else:
        typer.echo(f"{run.name} is running. Find it again with: kerneltui watch {run.path}")
    if wait:
        _follow(run, quiet=as_json)


def _follow(run: Any, *, quiet: bool = False) -> None:
    """Print the run's lines until its end and exit with its result; Ctrl-C leaves the run alone."""
    from kerneltui.runs.follow import follow

    try:
        for line in follow(run):
            if not quiet:
                typer.echo(line)
    except KeyboardInterrupt:
        typer.echo(f"\n{run.name} goes on. Find it again with: kerneltui watch {run.path}", err=True)
        raise typer.Exit(130) from None
    if run.read_state().phase not in ("finished", "stopped"):
        raise typer.Exit(1)


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

    with Asker(find_interpreter(python), environment=plan.launch.environment) as asker:
        with _progress() as tell:
            asker.prepare()
            machine = machine or _read_server(python, server, None, tell)
            situation = find_out(plan, machine, asker, Hub(), on_progress=tell)
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
        typer.echo(line, err=err)


def _tell_error(error: KerneltuiError) -> None:
    from kerneltui.text import plain

    typer.echo(f"✖ {plain(error.title)}", err=True)
    for part in (error.message, error.hint):
        for line in plain(part).splitlines():
            typer.echo(f"  {line}", err=True)
