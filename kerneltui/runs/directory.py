"""The run directory: its files, and what each holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from kerneltui.advice.assessment import WillRun
from kerneltui.advice.finding import Finding
from kerneltui.facts.server import Server
from kerneltui.paths import write_atomically
from kerneltui.plan.plan import Plan
from kerneltui.records import Document, Record, read_record, to_json
from kerneltui.runs.tail import JsonTail

Phase = Literal["starting", "running", "finished", "stopped", "failed", "killed", "lost"]
ACTIVE: tuple[Phase, ...] = ("starting", "running")
PHASE_SIGNS: dict[str, str] = {
    "starting": "…", "running": "●", "finished": "✔", "stopped": "✔", "failed": "✖", "killed": "✖", "lost": "✖",
}  # fmt: skip


class RunRecord(Document):
    """`run.json`: what was asked and what it resolved to before launch. Never changed.

    `forced` tells that the person insisted on a launch past a block or a proof that failed; `environment_names` are the
    variables that were set.
    """

    name: str
    time: str
    kerneltui: str
    plan: Plan
    will_run: WillRun
    findings: tuple[Finding, ...]
    forced: bool
    output_dir: str
    server: Server
    environment_names: tuple[str, ...]


class Command(Document):
    """`attempts/N/command.json`: the process that was started. `environment` is what was added to the person's.

    In the file secrets are hidden; the supervisor that starts the process was handed them (see `handover`).
    """

    argv: tuple[str, ...]
    cwd: str
    environment: dict[str, str]


class State(Document):
    """`state.json`: where the run is. `pid` is the launcher's process, the leader of its own session.

    `exit_code` is negative for a signal, as in `subprocess`; None where it is not known. Times are ISO 8601. `way_out`
    is what to do about the `reason` of an end.
    """

    phase: Phase
    attempt: int
    hostname: str
    boot_id: str | None
    updated: str
    supervisor_pid: int | None = None
    pid: int | None = None
    started: str | None = None
    ended: str | None = None
    exit_code: int | None = None
    reason: str | None = None
    way_out: str | None = None


class Request(Record):
    """`request`: what a front end asks of a run."""

    action: Literal["checkpoint", "stop", "kill"]
    time: str


class RunDirectory:
    """The files of one run; reading never changes them."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def name(self) -> str:
        """The run's name."""
        return self.path.name

    @property
    def metrics(self) -> Path:
        """`metrics.jsonl`: a line a log event (`kind` "log") or progress line (`kind` "progress")."""
        return self.path / "metrics.jsonl"

    @property
    def events(self) -> Path:
        """`events.jsonl`: what loaded, checkpoints, requests, ends."""
        return self.path / "events.jsonl"

    @property
    def system(self) -> Path:
        """`system.jsonl`: samples of GPUs, host memory and disk."""
        return self.path / "system.jsonl"

    @property
    def lock(self) -> Path:
        """`state.lock`: held by the supervisor as long as it lives."""
        return self.path / "state.lock"

    @property
    def request(self) -> Path:
        """`request`: what a front end asks of the run; gone when it was taken up."""
        return self.path / "request"

    def attempt(self, number: int) -> Path:
        """Return the folder of attempt `number`, which counts from 1."""
        return self.path / "attempts" / str(number)

    def output(self, number: int) -> Path:
        """Return the log of attempt `number`: standard output and error as they came."""
        return self.attempt(number) / "output.log"

    def read_run(self) -> RunRecord:
        """Return `run.json`. Raises RecordError."""
        return read_record(self.path / "run.json", RunRecord)

    def read_command(self, number: int) -> Command:
        """Return the command of attempt `number`. Raises RecordError."""
        return read_record(self.attempt(number) / "command.json", Command)

    def read_state(self) -> State:
        """Return `state.json` as it was written. Raises RecordError."""
        return read_record(self.path / "state.json", State)

    def write(self, name: str, record: object) -> None:
        """Replace the file `name` by a record, atomically. Raises KerneltuiError."""
        write_atomically(self.path / name, to_json(record))


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the whole lines of a JSON-lines file that are JSON objects; a last line without its end is left out."""
    return JsonTail(path).read_all()
