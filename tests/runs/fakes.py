"""Run directories whose training is a few lines of Python: what the supervisor does needs no TRL."""

from __future__ import annotations

import sys
import textwrap
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from kerneltui.advice.assessment import Attention, WillRun
from kerneltui.facts.gpu import GpuSample
from kerneltui.plan.plan import Plan
from kerneltui.runs.directory import Command, RunDirectory, RunRecord, State
from kerneltui.runs.processes import ATTEMPT, MARK
from kerneltui.runs.supervisor import initial_state
from tests.advice.situations import make_server

KERNEL = "kernels-community/flash-attn2"

# What the training program records: `begin` and `end` of a rank, and any other event.
RECORD = """
import json, os
def event(name, **values):
    line = {"attempt": 1, "event": name, "rank": 0, **values}
    with open(os.environ["KERNELTUI_RUN"] + "/events.jsonl", "a") as file:
        file.write(json.dumps(line) + "\\n")
def begin(rank=0):
    event("process_start", rank=rank, pid=os.getpid())
def end(outcome, error=None, rank=0):
    event("process_end", rank=rank, outcome=outcome, error=error)
"""


class NoGpus:
    """Stands in for NVML on a machine without GPUs."""

    def sample(self) -> tuple[GpuSample, ...]:
        """Return no GPU."""
        return ()

    def close(self) -> None:
        """Nothing is open."""


def make_run(path: Path, training: str, **state: Any) -> RunDirectory:
    """Return a run that is about to start and whose training is the Python source `training`.

    `state` are fields of its state that are otherwise.
    """
    run = RunDirectory(path)
    run.attempt(1).mkdir(parents=True)
    argv = (sys.executable, "-c", RECORD + textwrap.dedent(training))
    environment = {MARK: str(path), ATTEMPT: "1"}
    run.write("attempts/1/command.json", Command(argv=argv, cwd=str(path), environment=environment))
    set_state(run, initial_state(1), **state)
    return run


def set_state(run: RunDirectory, old: State | None = None, **changes: Any) -> None:
    """Write a state that differs in `changes` from `old`, or from that of the run."""
    run.write("state.json", msgspec.structs.replace(old or run.read_state(), **changes))


def ago(seconds: float) -> str:
    """Return the time of so many seconds ago as a record has it."""
    return (datetime.now().astimezone() - timedelta(seconds=seconds)).isoformat(timespec="milliseconds")


def make_record(run: RunDirectory, attention: Attention | None = None, **changes: Any) -> RunRecord:
    """Write and return the run's `run.json`, which promises `attention`."""
    record = RunRecord(
        name=run.name,
        time=ago(60),
        kerneltui="0.1.0",
        plan=Plan(trainer="sft", cwd="/work"),
        will_run=WillRun(
            trainer="sft",
            model="Qwen/Qwen3-0.6B",
            attention=attention or Attention(asked=None, implementation="sdpa"),
            dtype="bfloat16",
            packages={},
        ),
        findings=(),
        forced=False,
        output_dir=str(run.path / "output"),
        server=make_server(),
        environment_names=(),
    )
    record = msgspec.structs.replace(record, **changes)
    run.write("run.json", record)
    return record
