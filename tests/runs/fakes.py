"""Run directories whose training is a few lines of Python: what the supervisor does needs no TRL."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

from kerneltui.runs.directory import Command, RunDirectory
from kerneltui.runs.processes import MARK
from kerneltui.runs.supervisor import initial_state

END = """
import json, os
def end(outcome, error=None):
    line = {"attempt": 1, "event": "process_end", "rank": 0, "outcome": outcome, "error": error}
    with open(os.environ["KERNELTUI_RUN"] + "/events.jsonl", "a") as file:
        file.write(json.dumps(line) + "\\n")
"""


def make_run(path: Path, training: str) -> RunDirectory:
    """Return a run that is about to start and whose training is the Python source `training`."""
    run = RunDirectory(path)
    run.attempt(1).mkdir(parents=True)
    argv = (sys.executable, "-c", END + textwrap.dedent(training))
    run.write("attempts/1/command.json", Command(argv=argv, cwd=str(path), environment={MARK: str(path)}))
    run.write("state.json", initial_state(1))
    return run
