"""The run directory: its files, and what each holds."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, Literal

import msgspec

from kerneltui.advice.assessment import WillRun
from kerneltui.advice.finding import Finding
from kerneltui.errors import KerneltuiError, UsageError
from kerneltui.facts.server import Server
from kerneltui.paths import write_atomically
from kerneltui.plan.plan import Plan
from kerneltui.records import Document, Record, read_record, to_json
from kerneltui.runs.places import known_places
from kerneltui.text import did_you_mean

Phase = Literal["starting", "running", "finished", "stopped", "failed", "killed", "lost"]
ACTIVE: tuple[Phase, ...] = ("starting", "running")


class RunRecord(Document):
    """`run.json`: what was asked and what it resolved to before launch. Never changed.

    `forced` tells that the person insisted on a launch past a block; `environment_names` are the variables that were
    set.
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
    """`attempts/N/command.json`: the process that was started. `environment` is what was added to the person's."""

    argv: tuple[str, ...]
    cwd: str
    environment: dict[str, str]


class State(Document):
    """`state.json`: where the run is. `pid` is the launcher's process, the leader of its own session.

    `exit_code` is negative for a signal, as in `subprocess`; None where it is not known. Times are ISO 8601.
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


def find_run(runs: Path, name: str, *, elsewhere: bool = False) -> RunDirectory:
    """Return the run of that name in `runs`, or the run directory at that path.

    With `elsewhere` a run that is not in `runs` is looked for in all known places. Raises UsageError, also where
    several of them have one of that name.
    """
    path = Path(name).expanduser()
    if "/" in name and (path / "run.json").is_file():
        return RunDirectory(path.absolute())
    here = list_runs(runs)
    others = _runs_elsewhere(runs) if elsewhere else []
    for found in ([run for run in here if run.name == name], [run for run in others if run.name == name]):
        if len(found) == 1:
            return found[0]
        if found:
            raise UsageError(
                f"Several runs are called {name!r}",
                "\n".join(str(run.path) for run in found),
                "Give the path of the one that is meant.",
            )
    raise UsageError(
        f"No run {name!r} in {runs}" + (" or in any other known place" if others else ""),
        "`kerneltui runs` lists them.",
        did_you_mean(name, [run.name for run in (*here, *others)]).capitalize()
        or "Give --runs-dir, or the path of the run's directory.",
    )


def _runs_elsewhere(runs: Path) -> list[RunDirectory]:
    """Return the runs of all known places but `runs`; a place that cannot be read has none."""
    found: dict[Path, RunDirectory] = {}
    for place in known_places():
        with contextlib.suppress(KerneltuiError, OSError):
            if not (runs.exists() and place.samefile(runs)):
                found |= {run.path.resolve(): run for run in list_runs(place)}
    return list(found.values())


def list_runs(runs: Path) -> list[RunDirectory]:
    """Return the runs in the directory `runs`, the one launched last first; none where it does not exist."""
    try:
        found = [(launched, path) for path in runs.iterdir() if (launched := _launched(path)) is not None]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise KerneltuiError(
            f"Cannot read {runs}", error.strerror or str(error), "Choose another directory with --runs-dir."
        ) from error
    return [RunDirectory(path) for _, path in sorted(found, reverse=True)]


def _launched(path: Path) -> float | None:
    """Return when `run.json` was written, once and for all, at launch; None where there is none to be seen."""
    try:
        return (path / "run.json").stat().st_mtime
    except OSError:
        return None


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the whole lines of a JSON-lines file that are JSON objects; a last line without its end is left out."""
    return LineReader(path).read()


class LineReader:
    """Reads a growing JSON-lines file: each `read` gives the lines that were completed since the last one.

    A file that is not there yet, or cannot be read now, has no new lines.
    `skipped` counts lines that were no JSON object.
    """

    def __init__(self, path: Path, *, limit: int = 8 << 20) -> None:
        self.path = path
        self.limit = limit
        self.skipped = 0
        self._offset = 0
        self._rest = b""

    def read(self) -> list[dict[str, Any]]:
        """Return the new lines; half a line waits for its other half. Reads at most `limit` bytes at a time."""
        found: list[dict[str, Any]] = []
        while chunk := self._chunk():
            self._offset += len(chunk)
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            for line in lines:
                self._decode(line, found)
        return found

    def _chunk(self) -> bytes:
        try:
            with self.path.open("rb") as file:
                file.seek(self._offset)
                return file.read(self.limit)
        except OSError:
            return b""

    def _decode(self, line: bytes, found: list[dict[str, Any]]) -> None:
        if not line:  # where a writer found another in the middle of its line
            return
        try:
            value = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            self.skipped += 1
            return
        if isinstance(value, dict):
            found.append(value)
        else:
            self.skipped += 1
