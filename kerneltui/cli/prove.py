"""The verb that tries a plan before it is launched."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kerneltui.cli import options
from kerneltui.cli.output import print_json, print_lines, progress
from kerneltui.cli.situation import asker_of, assess_plan, plan_of, refuse_recorded

if TYPE_CHECKING:
    from kerneltui.advice.situation import Situation
    from kerneltui.facts.proof import Proof
    from kerneltui.interpreter import Asker


@click.command(context_settings=options.PASS_ON)
@options.trainer
@options.arguments
@options.gpus
@click.option("--again", is_flag=True, help="Try anew what was tried before with the same kernel, card and shapes.")
@click.option("--memory", is_flag=True, help="Measure the memory too: two steps at full shape on random weights.")
@options.python
@options.server
@options.as_json
def prove(
    trainer: str,
    arguments: tuple[str, ...],
    gpus: str | None,
    again: bool,
    memory: bool,
    python: Path | None,
    server: Path | None,
    as_json: bool,
) -> None:
    """Try a plan here: its attention at the model's shapes, and some steps of its trainer on a small model."""
    refuse_recorded(server)
    plan = plan_of(trainer, arguments, gpus=gpus)
    with asker_of(plan, python) as asker:
        situation, _ = assess_plan(plan, asker, python, None)
        proof = make_proof(situation, asker, python, again=again, memory=memory)
    print_json(proof) if as_json else tell_proof(situation, proof)
    if not proof.passed:
        raise SystemExit(1)


def tell_proof(situation: Situation, proof: Proof, *, err: bool = False) -> None:
    """Print a proof, and what mends what it found."""
    from kerneltui.advice.rehearsed import findings_of
    from kerneltui.advice.show import fix_text
    from kerneltui.show_proof import proof_lines

    found = findings_of(situation, proof.rehearsal) if proof.rehearsal else ()
    fixes = [f"  → {fix.label}: {fix_text(fix)}" for finding in found for fix in finding.fixes]
    print_lines([*proof_lines(proof), *fixes, *_measured(situation, proof)], err=err)


def _measured(situation: Situation, proof: Proof) -> list[str]:
    """Return what a plan takes of the card by the measured step, nothing where none was measured."""
    import msgspec

    from kerneltui.advice.memory.fits import memory_of
    from kerneltui.show import memory_table

    made = proof.memory
    if made is None or made.peak is None or made.reserved is None:
        return []
    memory = memory_of(msgspec.structs.replace(situation, measured=(made.peak, made.reserved)))
    return ["", *memory_table(memory)] if memory else []


def make_proof(
    situation: Situation, asker: Asker, python: Path | None, *, again: bool = False, memory: bool = False
) -> Proof:
    """Return the proof of a situation, with its progress on a terminal's standard error. Raises KerneltuiError.

    With `memory` the memory of a step is measured too.
    """
    from kerneltui.facts.hub import Hub
    from kerneltui.interpreter import find_interpreter
    from kerneltui.paths import hub_answers
    from kerneltui.prove.prove import PARTS, Proving

    hub = Hub.of(situation.plan.environment, folder=hub_answers())
    parts = (*PARTS, "memory") if memory else PARTS
    with progress() as tell:
        proving = Proving(situation, asker, hub, find_interpreter(python), parts=parts, again=again)
        return proving.run(lambda part, text: tell(f"{part}: {text}"))
