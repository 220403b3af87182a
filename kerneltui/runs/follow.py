"""Following a run as plain lines: for logs of schedulers, scripts and screen readers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from kerneltui.runs.control import watch_over
from kerneltui.runs.directory import ACTIVE, LineReader, RunDirectory, State
from kerneltui.text import plain_line

# Seconds between two looks at the files.
_INTERVAL = 0.25


def follow(run: RunDirectory) -> Iterator[str]:
    """Give a line for everything that the run has recorded and records, until it has ended; then how it ended."""
    metrics, events = LineReader(run.metrics), LineReader(run.events)
    while True:
        # The state is read first: what was written before a run's end is then read below.
        state = watch_over(run)
        new = [(line, _event_line(line)) for line in events.read()]
        new += [(line, _metrics_line(line)) for line in metrics.read()]
        for line, text in sorted(new, key=lambda pair: str(pair[0].get("time"))):
            if text:
                yield f"{_clock(line)}  {text}"
        if state.phase not in ACTIVE:
            yield ending(run, state)
            return
        time.sleep(_INTERVAL)


def ending(run: RunDirectory, state: State) -> str:
    """Return one line on how a run ended and what to do next."""
    signs = {"finished": "✔", "stopped": "✔", "killed": "✖", "failed": "✖", "lost": "✖"}
    text = f"{signs.get(state.phase, '·')} {run.name} {state.phase}"
    if state.reason:
        text += f": {plain_line(state.reason)}"
    if state.phase in ("failed", "killed", "lost"):
        text += f"  (log: {run.output(state.attempt)})"
    return text


def _clock(line: dict[str, Any]) -> str:
    return str(line.get("time", ""))[11:19]


def _metrics_line(line: dict[str, Any]) -> str | None:
    values = line.get("values")
    if line.get("kind") != "log" or not isinstance(values, dict):
        return None
    numbers = "  ".join(f"{plain_line(str(name))} {_short(value)}" for name, value in values.items() if name != "epoch")
    return f"step {line.get('step')}  {numbers}"


def _short(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.0f}" if value.is_integer() else f"{value:.4g}"
    return plain_line(str(value))


def _event_line(line: dict[str, Any]) -> str | None:
    match line.get("event"):
        case "train_begin":
            kernels = ", ".join(_kernel(kernel) for kernel in line.get("kernels", []))
            return f"training {line.get('total')} steps; attention in use: {line.get('attention')}" + (
                f"; kernels loaded: {kernels}" if kernels else ""
            )
        case "checkpoint":
            return f"checkpoint at step {line.get('step')}: {plain_line(str(line.get('path')))}"
        case "request":
            return f"{line.get('action')} carried out at step {line.get('step')}"
        case "kill":
            return "ending all processes"
    return None


def _kernel(kernel: dict[str, Any]) -> str:
    name = kernel.get("repository") or kernel.get("name")
    revision = f"@{kernel['revision']}" if kernel.get("revision") else ""
    return plain_line(f"{name}{revision} ({kernel.get('variant')}, commit {str(kernel.get('commit'))[:8]})")
