"""The verb that brings what a run needs from the Hub into the cache."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kerneltui.cli import options
from kerneltui.cli.output import print_json, print_lines, progress
from kerneltui.cli.situation import asker_of, assess_plan, plan_of

if TYPE_CHECKING:
    from kerneltui.advice.situation import Situation
    from kerneltui.fetch import Fetched
    from kerneltui.interpreter import Asker

_BAR = 20


@click.command(context_settings=options.PASS_ON)
@options.trainer
@options.arguments
@options.python
@options.as_json
def fetch(trainer: str, arguments: tuple[str, ...], python: Path | None, as_json: bool) -> None:
    """Bring what a run needs from the Hub into the cache, so that it starts without a network."""
    from kerneltui.show import fetched_lines

    plan = plan_of(trainer, arguments)
    with asker_of(plan, python) as asker:
        situation, _ = assess_plan(plan, asker, python, None)
        found = bring(situation, asker, python)
    print_json(found) if as_json else print_lines(fetched_lines(found))


def bring(situation: Situation, asker: Asker, python: Path | None) -> Fetched:
    """Fetch what a situation needs, with its progress on a terminal's standard error. Raises KerneltuiError."""
    from kerneltui.facts.hub import Hub
    from kerneltui.fetch import fetch, needed, progress_words
    from kerneltui.interpreter import find_interpreter
    from kerneltui.paths import hub_answers

    seen = situation.plan.environment
    hub = Hub(seen.get("HF_ENDPOINT"), token=seen.get("HF_TOKEN"), folder=hub_answers())
    with progress() as tell:
        tell("asking the Hub what is to be fetched")
        parts = needed(situation, asker, hub)
        return fetch(
            parts, situation, find_interpreter(python), on_progress=lambda part, come: tell(progress_words(part, come))
        )
