"""The verbs that start a run."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kerneltui.cli import options
from kerneltui.cli.fetch import bring
from kerneltui.cli.output import print_json, print_lines
from kerneltui.cli.prove import make_proof, tell_proof
from kerneltui.cli.runs import follow_run
from kerneltui.cli.situation import asker_of, assess_plan, gpu_numbers, plan_of, refuse_recorded, server_report

if TYPE_CHECKING:
    from kerneltui.advice.assessment import Assessment
    from kerneltui.advice.situation import Situation
    from kerneltui.facts.proof import Proof
    from kerneltui.facts.server import Server
    from kerneltui.interpreter import Asker
    from kerneltui.plan.plan import Plan


@click.command(context_settings=options.PASS_ON)
@options.trainer
@options.arguments
@options.name
@options.gpus
@click.option("--prove", is_flag=True, help="Try the plan first, and launch only what passes.")
@click.option("--force", is_flag=True, help="Launch past a block, and past a proof that failed.")
@options.on_alert
@options.wait
@options.python
@options.server
@options.runs_dir
@options.as_json
def launch(
    trainer: str,
    arguments: tuple[str, ...],
    name: str | None,
    gpus: str | None,
    prove: bool,
    force: bool,
    on_alert: str | None,
    wait: bool,
    python: Path | None,
    server: Path | None,
    runs_dir: Path | None,
    as_json: bool,
) -> None:
    """Start training in its own session."""
    from kerneltui.paths import runs_directory

    refuse_recorded(server)
    plan = plan_of(trainer, arguments, name=name, gpus=gpus, on_alert=on_alert)
    _launch(plan, python, runs_directory(runs_dir), force=force, wait=wait, as_json=as_json, prove=prove)


@click.command()
@options.wait
@click.option("--steps", type=click.IntRange(min=1), default=20, show_default=True, help="Optimizer steps to train.")
@options.name
@options.gpus
@options.python
@options.runs_dir
@options.as_json
def demo(
    wait: bool,
    steps: int,
    name: str | None,
    gpus: str | None,
    python: Path | None,
    runs_dir: Path | None,
    as_json: bool,
) -> None:
    """Train the embedded tiny model on its own attention kernel, without a network, on a GPU or the CPU."""
    from kerneltui.paths import check_run_name, runs_directory
    from kerneltui.plan.demo import demo_plan

    if name is not None:
        check_run_name(name)
    numbers = gpu_numbers(gpus)
    machine = server_report(python, None, runs_dir)
    plan = demo_plan(machine, steps=steps, name=name, gpus=numbers)
    _launch(plan, python, runs_directory(runs_dir), force=False, wait=wait, as_json=as_json, machine=machine)


def _launch(
    plan: Plan,
    python: Path | None,
    runs: Path,
    *,
    force: bool,
    wait: bool,
    as_json: bool,
    machine: Server | None = None,
    prove: bool = False,
) -> None:
    from kerneltui.advice.show import finding_lines
    from kerneltui.fetch import for_all_ranks, offline
    from kerneltui.interpreter import find_interpreter
    from kerneltui.runs.launch import launch as launch_run
    from kerneltui.show import will_run_lines

    with asker_of(plan, python) as asker:
        situation, assessment = assess_plan(plan, asker, python, None, machine=machine)
        if assessment.findings:
            print_lines(finding_lines(assessment.findings), err=True)
        if for_all_ranks(situation) and not assessment.blocked:
            # So that ranks do not download side by side.
            situation = offline(situation, bring(situation, asker, python))
        proof = _proof(situation, assessment, asker, python, force) if prove else None
        run = launch_run(situation, assessment, runs, find_interpreter(python), forced=force, proof=proof)
        print_lines(will_run_lines(assessment.will_run), err=True)
    if as_json:
        print_json({"schema": 1, "name": run.name, "path": str(run.path)})
    else:
        click.echo(f"{run.name} is running. Find it again with: kerneltui watch {shlex.quote(str(run.path))}")
    if wait:
        follow_run(run, quiet=as_json)


def _proof(
    situation: Situation, assessment: Assessment, asker: Asker, python: Path | None, force: bool
) -> Proof | None:
    """Return the proof of a plan after telling it on standard error; None where its launch is blocked anyway."""
    if assessment.blocked and not force:
        return None
    proof = make_proof(situation, asker, python)
    tell_proof(situation, proof, err=True)
    return proof
