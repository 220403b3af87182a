"""Following a run as plain lines: for logs of schedulers, scripts and screen readers."""

from __future__ import annotations

import contextlib
import shlex
import time
from collections.abc import Iterator
from typing import Any

from kerneltui.advice.finding import SIGNS
from kerneltui.errors import KerneltuiError
from kerneltui.runs.alert import alert_words
from kerneltui.runs.contact import is_here, lost_since, lost_words
from kerneltui.runs.control import watch_over
from kerneltui.runs.directory import ACTIVE, RunDirectory, State, read_lines
from kerneltui.runs.tail import JsonTail
from kerneltui.text import plain_line

# Seconds between two looks at the files.
_INTERVAL = 0.25
_ENDINGS = {"finished": "✔", "stopped": "✔", "killed": "✖", "failed": "✖", "lost": "✖"}


def follow(run: RunDirectory) -> Iterator[str]:
    """Give a line for everything that the run has recorded and records, until it has ended; then how it ended.

    Of a run on another machine that has not been heard of for minutes, the last line says so.
    """
    return map(plain_line, _follow(run))


def _follow(run: RunDirectory) -> Iterator[str]:
    metrics, events = JsonTail(run.metrics), JsonTail(run.events)
    teller = _Teller()
    state = watch_over(run)
    if state.phase in ACTIVE and not is_here(state):
        yield f"· {run.name} runs on {state.hostname}; this is its record"
    while True:
        lines = [*events.read_all(), *metrics.read_all()]
        for line in sorted(lines, key=lambda line: str(line.get("time"))):
            if text := teller.tell(line):
                yield f"{str(line.get('time', ''))[11:19]}  {text}"
        if state.phase not in ACTIVE:
            yield ending(run, state)
            return
        if lost := _lost(run, state):
            yield lost
            return
        time.sleep(_INTERVAL)
        # The state is read first: what was written before a run's end is then read below.
        state = watch_over(run)


def ending(run: RunDirectory, state: State) -> str:
    """Return one line on how a run ended, and where its model, its last checkpoint or its log is."""
    text = f"{_ENDINGS.get(state.phase, '·')} {run.name} {state.phase}"
    if state.reason:
        text += f": {plain_line(state.reason)}"
    if state.phase in ("finished", "stopped"):
        text += "".join(f"; {found}" for found in _results(run, state))
    else:
        text += f"  (log: {run.output(state.attempt)})"
    if state.way_out:
        text += f"; what to do: {plain_line(state.way_out)}"
    return plain_line(text)


def _results(run: RunDirectory, state: State) -> Iterator[str]:
    with contextlib.suppress(KerneltuiError):  # what is known is told all the same
        yield f"the model is in {run.read_run().output_dir}"
    if state.phase == "stopped":
        paths = [event.get("path") for event in read_lines(run.events) if event.get("event") == "checkpoint"]
        if paths:
            yield f"the last checkpoint is {paths[-1]}"


def _lost(run: RunDirectory, state: State) -> str | None:
    """Return what to say of a run that has not been heard of for minutes, None for one that has."""
    since = lost_since(run, state)
    if since is None:
        return None
    return (
        f"✖ {run.name}: {lost_words(state, since)}. "
        f"{'As its owner' if is_here(state) else 'Look there'}: kerneltui watch {shlex.quote(str(run.path))}"
    )


class _Teller:
    """Puts recorded lines into words; the number of steps in all is known once training has begun."""

    def __init__(self) -> None:
        self._total: int | None = None

    def tell(self, line: dict[str, Any]) -> str | None:
        """Return a line's words, None where it has none for a person."""
        if isinstance(total := line.get("total"), int):
            self._total = total
        values = line.get("values")
        if line.get("kind") == "log" and isinstance(values, dict):
            numbers = "  ".join(
                f"{plain_line(name)} {_short(value)}" for name, value in values.items() if name != "epoch"
            )
            return f"{self._step(line)}  {numbers}"
        return _event_line(line, self._step(line))

    def _step(self, line: dict[str, Any]) -> str:
        return f"step {line.get('step')}/{self._total}" if self._total else f"step {line.get('step')}"


def _short(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.0f}" if value.is_integer() else f"{value:.4g}"
    return _words(value)


def _words(value: object) -> str:
    """Return what a process has written, on one line that nothing in it can rewrite."""
    return plain_line(str(value))


def _event_line(line: dict[str, Any], step: str) -> str | None:
    match line.get("event"):
        case "train_begin":
            kernels = ", ".join(_kernel(kernel) for kernel in line.get("kernels") or () if isinstance(kernel, dict))
            return f"training {line.get('total')} steps; attention in use: {_words(line.get('attention'))}" + (
                f"; kernels loaded: {kernels}" if kernels else ""
            )
        case "alert":
            sign = SIGNS.get(str(line.get("severity")), "▲")
            return f"{sign} {_words(alert_words(line))}"
        case "alert_over":
            return f"· passed: {_words(line.get('id'))}"
        case "checkpoint":
            return f"checkpoint at {step}: {_words(line.get('path'))}"
        case "request":
            return f"{_words(line.get('action'))} carried out at {step}"
        case "kill":
            return "ending all processes"
        case "kill_failed":
            return f"✖ these processes could not be ended: {line.get('pids')}"
        case "recorder_failed" if isinstance(error := line.get("error"), dict):
            return (
                f"▲ the record has gaps ({_words(error.get('type'))}: {_words(error.get('message'))}); training goes on"
            )
    return None


def _kernel(kernel: dict[str, Any]) -> str:
    name = kernel.get("repository") or kernel.get("name")
    revision = f"@{kernel['revision']}" if kernel.get("revision") else ""
    return _words(f"{name}{revision} ({kernel.get('variant')}, commit {str(kernel.get('commit'))[:8]})")
