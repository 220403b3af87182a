"""The verbs on a plan that start nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kerneltui.cli import options
from kerneltui.cli.flags import refuse_mistyped
from kerneltui.cli.output import print_json, print_lines, tell_error
from kerneltui.cli.situation import asker_of, assess_plan, assessed, plan_of
from kerneltui.errors import KerneltuiError, UsageError

if TYPE_CHECKING:
    from kerneltui.interpreter import Asker
    from kerneltui.plan.plan import Plan


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
@click.option("--as", "form", default="shell", show_default=True, help="shell, yaml, python or slurm.")
@options.python
@options.server
@options.gpus
def export(
    trainer: str, arguments: tuple[str, ...], form: str, python: Path | None, server: Path | None, gpus: str | None
) -> None:
    """Print the same training for other hands; what would block it is said on standard error."""
    from kerneltui.plan.forms import FORMS, as_python, as_shell, as_slurm, as_yaml
    from kerneltui.plan.settings import read_settings

    if form not in FORMS:
        raise UsageError(f"No form {form!r}", f"There are {', '.join(FORMS)}.", "Choose one with --as.")
    plan = plan_of(trainer, arguments, gpus=gpus)
    with asker_of(plan, python) as asker:
        refuse_mistyped(plan, asker)
        if form == "shell":
            text = as_shell(plan)
        else:
            writers = {"yaml": as_yaml, "python": as_python, "slurm": as_slurm}
            text = writers[form](plan, read_settings(plan, asker))
        click.echo(text, nl=False)
        _tell_blocks(plan, asker, python, server)


def _tell_blocks(plan: Plan, asker: Asker, python: Path | None, server: Path | None) -> None:
    """Say on standard error what would block an exported plan; its form is printed all the same, and has no error."""
    try:
        _, assessment = assess_plan(plan, asker, python, server)
    except KerneltuiError as error:
        tell_error(KerneltuiError(f"Not checked: {error.title}", error.message, error.hint))
        return
    if blocks := [finding.title for finding in assessment.findings if finding.severity == "block"]:
        where = "there" if server else "on this server"
        tell_error(KerneltuiError(f"It would be blocked {where}", "\n".join(blocks), "`kerneltui check` says why."))
