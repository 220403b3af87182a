"""A cluster of one machine: programs in a folder that stand for those of Slurm, and write down how they were called."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

_RECORD = """\
import json, os, pathlib, signal, subprocess, sys
home, name, arguments = pathlib.Path(os.environ["CLUSTER"]), pathlib.Path(sys.argv[0]).name, sys.argv[1:]
with (home / "calls.jsonl").open("a") as calls:
    calls.write(json.dumps([name, arguments, os.getcwd(), dict(os.environ)]) + "\\n")
"""
_SRUN = """\
while arguments[0].startswith("--"):
    arguments.pop(0)
codes = [
    subprocess.run(arguments, env={**os.environ, "SLURM_NODEID": str(node)}, check=False).returncode
    for node in range(int(os.environ["SLURM_JOB_NUM_NODES"]))
]
if os.environ.get("TIME_IS_UP"):
    os.kill(os.getppid(), signal.SIGUSR1)
sys.exit(max(codes))
"""
_SCONTROL = """\
if arguments[:2] == ["show", "hostnames"]:
    print("node-a\\nnode-b")
"""
# A training that writes the checkpoint, and a kerneltui that writes the phase, which the test names.
_TRAIN = """\
if where := os.environ.get("CHECKPOINT"):
    pathlib.Path(where).mkdir(parents=True, exist_ok=True)
    pathlib.Path(where, "trainer_state.json").write_text("{}")
if name == "kerneltui" and arguments[0] in ("launch", "resume"):
    run = pathlib.Path(arguments[arguments.index("--runs-dir") + 1], f"slurm-{os.environ['SLURM_JOB_ID']}")
    run.mkdir(parents=True, exist_ok=True)
    (run / "state.json").write_text(json.dumps({"phase": os.environ.get("PHASE", "finished")}))
sys.exit(int(os.environ.get("CODE", "0")))
"""
_PROGRAMS = {"srun": _SRUN, "scontrol": _SCONTROL, "trl": _TRAIN, "kerneltui": _TRAIN, "sleep": ""}


class Call(NamedTuple):
    """One call of a program: its name, its arguments, where, and with which variables."""

    program: str
    arguments: list[str]
    cwd: str
    environment: dict[str, str]


class Job(NamedTuple):
    """What a batch script came to: its exit code, what it said, and the programs that it called."""

    code: int
    err: str
    calls: list[Call]

    def of(self, program: str) -> list[Call]:
        """Return the calls of one program."""
        return [call for call in self.calls if call.program == program]


def submit(script: str, home: Path, *, nodes: int = 1, gpus: int | None = 4, **variables: Any) -> Job:
    """Run a batch script as the first of its machines would, with programs in `home` in the place of real ones."""
    tools = home / "bin"
    tools.mkdir(parents=True, exist_ok=True)
    (home / "calls.jsonl").write_text("")
    for name, text in _PROGRAMS.items():
        (tools / name).write_text(f"#!{sys.executable} -S\n{_RECORD}{text}")
        (tools / name).chmod(0o755)
    (home / "job.sh").write_text(script)
    given = {"SLURM_JOB_ID": 77, "SLURM_JOB_NUM_NODES": nodes, "SLURM_JOB_NODELIST": "node-[a-b]", **variables}
    given |= {"SLURM_GPUS_ON_NODE": gpus} if gpus is not None else {}
    environment = {"PATH": f"{tools}:{os.environ['PATH']}", "CLUSTER": str(home)}
    environment |= {name: str(value) for name, value in given.items()}
    command = ["bash", str(home / "job.sh")]
    done = subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, check=False)
    lines = (home / "calls.jsonl").read_text().splitlines()
    return Job(done.returncode, done.stderr, [Call(*json.loads(line)) for line in lines])
