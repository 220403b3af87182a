"""What the verbs on plans share: making a plan, reading the server, finding out and judging."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from kerneltui.cli.flags import check_trainer, refuse_mistyped
from kerneltui.cli.output import progress
from kerneltui.errors import UsageError

if TYPE_CHECKING:
    from kerneltui.advice.assessment import Assessment
    from kerneltui.advice.situation import Situation
    from kerneltui.facts.server import Server
    from kerneltui.interpreter import Asker, ProgressCallback
    from kerneltui.plan.plan import Plan


def plan_of(
    trainer: str,
    arguments: tuple[str, ...],
    *,
    name: str | None = None,
    gpus: str | None = None,
    on_alert: str | None = None,
) -> Plan:
    """Return the plan of a command line; raises UsageError as `make_plan`, and for a name or GPUs that are none."""
    from kerneltui.paths import check_run_name
    from kerneltui.plan.plan import Launch, make_plan

    check_trainer(trainer)
    if name is not None:
        check_run_name(name)
    return make_plan(trainer, list(arguments), launch=Launch(name=name, gpus=gpu_numbers(gpus), on_alert=on_alert))


def gpu_numbers(text: str | None) -> tuple[int, ...] | None:
    """Return the numbers of a list of GPUs such as 0,1. Raises UsageError."""
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() for part in parts) or len(set(map(int, parts))) < len(parts):
        raise UsageError(
            f"{text!r} is no list of GPUs", "Each is one number, once.", "Give them in PCI bus order: --gpus 0,1"
        )
    return tuple(map(int, parts))


@contextlib.contextmanager
def assessed(
    plan: Plan, python: Path | None, server: Path | None, *, machine: Server | None = None
) -> Iterator[tuple[Situation, Assessment]]:
    """Give the situation and the assessment of a plan: for `machine`, else the recorded `server`, else this one."""
    with asker_of(plan, python) as asker:
        yield assess_plan(plan, asker, python, server, machine=machine)


def asker_of(plan: Plan, python: Path | None) -> Asker:
    """Return an asker that sees the plan's variables."""
    from kerneltui.interpreter import Asker, find_interpreter

    return Asker(find_interpreter(python), environment=plan.environment)


def assess_plan(
    plan: Plan, asker: Asker, python: Path | None, server: Path | None, *, machine: Server | None = None
) -> tuple[Situation, Assessment]:
    """Return the situation and the assessment of a plan, as `assessed` gives them. Raises KerneltuiError."""
    from kerneltui.assess import assess, find_out
    from kerneltui.facts.environment import is_offline
    from kerneltui.facts.hub import Hub
    from kerneltui.paths import hub_answers

    with progress() as tell:
        asker.prepare()
        machine = machine or server_report(python, server, None, tell)
        refuse_mistyped(plan, asker)
        seen = plan.environment
        hub = Hub(seen.get("HF_ENDPOINT"), token=seen.get("HF_TOKEN"), folder=hub_answers(), offline=is_offline(seen))
        situation = find_out(plan, machine, asker, hub, on_progress=tell, elsewhere=server is not None)
    return situation, assess(situation)


def refuse_recorded(server: Path | None) -> None:
    """Raise UsageError where a recorded server is given to what works on this one alone."""
    if server is not None:
        raise UsageError(
            "A run starts on this machine alone",
            f"{server} is the report of another one, or of another time.",
            "`kerneltui check … --server FILE` judges a plan for it, and `kerneltui export …` writes it for there.",
        )


def server_report(
    python: Path | None, file: Path | None, runs_dir: Path | None, tell: ProgressCallback | None = None
) -> Server:
    """Return the recorded report in `file`, else that of this server. Raises KerneltuiError."""
    from kerneltui.facts.read_server import read_server
    from kerneltui.facts.server import Server
    from kerneltui.interpreter import find_interpreter
    from kerneltui.paths import runs_directory
    from kerneltui.records import read_record

    if file is not None:
        return read_record(file, Server)
    with contextlib.nullcontext(tell) if tell else progress() as on_progress:
        return read_server(find_interpreter(python), on_progress=on_progress, runs_dir=runs_directory(runs_dir))
