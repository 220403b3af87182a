"""One file without secrets to attach to an issue: a server, or a run with the server that it started on."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from kerneltui import __version__
from kerneltui.advice.health import judge_server
from kerneltui.advice.show import finding_lines
from kerneltui.errors import KerneltuiError
from kerneltui.facts.report import report_lines
from kerneltui.facts.server import Server
from kerneltui.paths import write_atomically
from kerneltui.plan.plan import parse_config
from kerneltui.records import to_json
from kerneltui.runs.directory import RunDirectory
from kerneltui.runs.log import LogTail
from kerneltui.runs.masking import known_secrets, mask, mask_values
from kerneltui.runs.tail import Tail
from kerneltui.text import now, plain

_WIDTH = 100
# What is taken of a run's files, from their end: lines of the log, and bytes of the others.
_LOG_LINES = 200
_BYTES = 1 << 15


def server_report_text(server: Server) -> str:
    """Return the file about a server: findings, report, and the JSON document that `--server` reads."""
    return _document("kerneltui: a server", (), server, known_secrets())


def run_report(run: RunDirectory) -> str:
    """Return the file about a run: plan, state, events and log, and the server as it was when the run was launched.

    What cannot be read of the run is told in its place.
    """
    try:
        server = run.read_run().server
    except KerneltuiError:
        server = None
    return _document(f"kerneltui: the run {run.name}", _run(run), server, known_secrets(*_secret_places(run)))


def write_report(text: str, path: Path) -> Path:
    """Write the file, readable by its owner alone, and return its absolute path. Raises KerneltuiError."""
    path = path.expanduser().absolute()
    write_atomically(path, text.encode("utf-8", "replace"))
    return path


def _document(title: str, sections: Iterable[str], server: Server | None, secrets: frozenset[str]) -> str:
    head = f"# {title}\n\nWritten by kerneltui {__version__} at {now()}. Tokens and passwords are left out.\n"
    about = _server(server) if server else ()
    text = mask("\n".join([head, *sections, *about]), secrets)
    if server is None:
        return text
    # Its own fields, such as where a token was found, are none of the names that stand before secrets.
    document = _folded("The server as JSON, for `kerneltui --server FILE`", to_json(server).decode())
    return f"{text}\n{mask_values(document, secrets)}"


def _server(server: Server) -> Iterator[str]:
    """Give the server as it was when its report was made, which for a run is before its launch."""
    yield _section("Findings about the server", finding_lines(judge_server(server), width=_WIDTH))
    yield _section(f"Server, read at {plain(server.time)}", report_lines(server, width=_WIDTH))


def _run(run: RunDirectory) -> Iterator[str]:
    yield _section("State", _told(lambda: to_json(run.read_state()).decode().splitlines()))
    yield _section("Plan", _told(lambda: _plan(run)))
    yield _section("Findings at launch", _told(lambda: finding_lines(run.read_run().findings, width=_WIDTH)))
    yield _section("What was to run", _told(lambda: to_json(run.read_run().will_run).decode().splitlines()))
    number = _attempt(run)
    yield _section(f"Command of attempt {number}", _told(lambda: [shlex.join(run.read_command(number).argv)]))
    log = LogTail(run.output(number)).poll().lines
    yield _section(f"Log of attempt {number}, its last lines", log[-_LOG_LINES:])
    for name, path in (("Events", run.events), ("Supervisor", run.path / "supervisor.log")):
        if lines := _last_lines(path):
            yield _section(f"{name}, the last of them", lines)


def _plan(run: RunDirectory) -> list[str]:
    """Return the plan as it was recorded, which is without secrets."""
    record = run.read_run()
    plan, launch = record.plan, record.plan.launch
    return [
        f"# trl {shlex.join([plan.trainer, *plan.flags])}",
        f"# in {plan.cwd}; output in {record.output_dir}; GPUs {launch.gpus or 'as the shell shows them'}",
        f"# kerneltui {record.kerneltui}; environment: {', '.join(record.environment_names)}",
        *(["# launched past a block"] if record.forced else []),
        *(plan.config or "").splitlines(),
    ]


def _attempt(run: RunDirectory) -> int:
    try:
        return run.read_state().attempt
    except KerneltuiError:
        return 1


def _secret_places(run: RunDirectory) -> Iterator[Mapping[str, object]]:
    """Give what may hold secrets that training got and may have printed: its environment and its configuration."""
    number = _attempt(run)
    try:
        yield run.read_command(number).environment
        config = (run.attempt(number) / "config.yaml").read_text(encoding="utf-8")
        yield parse_config(config, "the configuration")
    except (KerneltuiError, OSError, UnicodeDecodeError):
        return


def _told(read: Callable[[], Sequence[str]]) -> Sequence[str]:
    try:
        return read()
    except KerneltuiError as error:
        return str(error).splitlines()


def _last_lines(path: Path) -> list[str]:
    data = Tail(path, from_end=_BYTES).read(_BYTES)
    whole = data if len(data) < _BYTES else data.partition(b"\n")[2]
    return [plain(line) for line in whole.decode("utf-8", "replace").splitlines()]


def _section(title: str, lines: Sequence[str]) -> str:
    return f"## {title}\n\n{_fenced(lines)}\n"


def _folded(title: str, text: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{_fenced(text.splitlines(), 'json')}\n\n</details>\n"


def _fenced(lines: Sequence[str], language: str = "") -> str:
    """Return lines as a block that shows them as they are, whatever they hold."""
    text = "\n".join(lines) or "nothing"
    ticks = max((len(found) for found in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, ticks + 1)
    return f"{fence}{language}\n{text}\n{fence}"
