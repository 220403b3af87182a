"""The verbs on a plan that start nothing."""

from __future__ import annotations

from pathlib import Path

import click

from kerneltui.cli import options
from kerneltui.cli.output import print_json, print_lines
from kerneltui.cli.situation import assessed, plan_of
from kerneltui.errors import UsageError


@click.command(context_settings=options.PASS_ON)
@options.trainer
@options.arguments
@options.python
@options.server
@options.gpus
@options.as_json
def check(
    trainer: str, arguments: tuple[str, ...], python: Path | None, server: Path | None, gpus: str | None, as_json: bool
) -> None:
    """Say what would fail or train the wrong thing, and what would really run."""
    from kerneltui.advice.show import finding_lines
    from kerneltui.show import will_run_lines

    with assessed(plan_of(trainer, arguments, gpus=gpus), python, server) as (_, assessment):
        if as_json:
            print_json(assessment)
        else:
            print_lines([*finding_lines(assessment.findings), "", *will_run_lines(assessment.will_run)])
    if assessment.blocked:
        raise SystemExit(1)


@click.command(context_settings=options.PASS_ON)
@options.trainer
@options.arguments
@click.option("--as", "form", default="shell", show_default=True, help="shell, yaml or python.")
@options.python
@options.gpus
def export(trainer: str, arguments: tuple[str, ...], form: str, python: Path | None, gpus: str | None) -> None:
    """Print the same training for other hands."""
    from kerneltui.interpreter import Asker, find_interpreter
    from kerneltui.plan.forms import FORMS, as_python, as_shell, as_yaml
    from kerneltui.plan.settings import read_settings

    if form not in FORMS:
        raise UsageError(f"No form {form!r}", f"There are {', '.join(FORMS)}.", "Choose one with --as.")
    plan = plan_of(trainer, arguments, gpus=gpus)
    if form == "shell":
        click.echo(as_shell(plan), nl=False)
        return
    with Asker(find_interpreter(python)) as asker:
        settings = read_settings(plan, asker)
    click.echo(as_yaml(plan, settings) if form == "yaml" else as_python(plan, settings), nl=False)
