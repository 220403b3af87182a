"""The banner of the live pane: what a run waits for, what differs from the promise, how it ended and what to do."""

from __future__ import annotations

import math
import shlex
from typing import TYPE_CHECKING

from textual.content import Content
from textual.reactive import var
from textual.widget import Widget

from kerneltui.text import duration, plain
from kerneltui.tui.widgets.run_header import phase_sign

if TYPE_CHECKING:
    from kerneltui.advice.finding import Severity
    from kerneltui.runs.live_view import LiveView

_ENDED = {"finished": "success", "stopped": "success", "failed": "error", "killed": "error", "lost": "error"}
_ASKED = {
    "checkpoint": "a checkpoint is asked for; it comes at the next step",
    "stop": "a stop is asked for; it comes at the next step, with a checkpoint and the final model",
    "kill": "its end is asked for; all its processes are being ended",
}


class Banner(Widget):
    """Lines that a person must read; not there when there are none. `-success`, `-warning` or `-error` colour it."""

    DEFAULT_CSS = """
    Banner {
        height: auto;
        max-height: 12;
        padding: 0 1;
        border-left: outer $primary;
        display: none;
        &.-shown { display: block; }
        &.-success { border-left: outer $success; }
        &.-warning { border-left: outer $warning; }
        &.-error { border-left: outer $error; }
    }
    """

    view: var[LiveView | None] = var(None)

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._content = Content("")

    def watch_view(self, view: LiveView | None) -> None:
        """Show a newer view, where it differs."""
        if view is None:
            return
        severity, lines = banner_lines(view)
        content = Content("\n").join(lines)
        if content.markup == self._content.markup:
            return
        self._content = content
        self.set_class(bool(lines), "-shown")
        for name in ("success", "warning", "error"):
            self.set_class(name == severity, f"-{name}")
        self.refresh(layout=True)

    def render(self) -> Content:
        """Return the lines."""
        return self._content


def banner_lines(view: LiveView) -> tuple[str, list[Content]]:
    """Return a severity ("success", "warning", "error", or "" for a note) and the lines; none where all goes well."""
    if view.problem:
        return "error", [_line("✖", "$error", f"The record cannot be read: {view.problem}")]
    if not view.active:
        return _ended(view)
    found = list(_now(view))
    severity = next((name for name in ("error", "warning") if any(kind == name for kind, _ in found)), "")
    return severity, [line for _, line in found]


def _now(view: LiveView) -> list[tuple[str, Content]]:
    lines = _alerts(view)
    if view.lost_since is not None:
        words = f"Lost contact: nothing has been heard from {view.host or 'its supervisor'} since"
        lines.append(("error", _line("✖", "$error", f"{words} {view.lost_since:%Y-%m-%d %H:%M}")))
    elif view.host is not None:
        lines.append(("", _line("·", "$secondary", f"it runs on {view.host}; this is its record")))
    if view.stage:
        since = f" ({duration((view.now - view.stage_since).total_seconds())})" if view.stage_since else ""
        lines.append(("", _line("…", "$secondary", f"{view.stage}{since}")))
    if view.silent is not None and view.lost_since is None:
        words = f"Silent for {duration(view.silent)}: nothing was recorded or printed"
        lines.append(("warning", _line("▲", "$warning", words)))
    if view.pending is not None:
        lines.append(("", _line("…", "$secondary", _ASKED[view.pending.action])))
    odd = [name for name, points in view.metrics.items() if points.last and not math.isfinite(points.last[1])]
    if odd:
        words = f"{', '.join(odd[:4])}: the last value is no number; see the curves for since when"
        lines.append(("warning", _line("▲", "$warning", words)))
    return lines


def _ended(view: LiveView) -> tuple[str, list[Content]]:
    phase = view.phase or "lost"
    severity = _ENDED.get(phase, "error")
    words = phase.capitalize() + (f": {view.reason}" if view.reason else "")
    lines = [_line(*phase_sign(phase), words)]
    lines += [line for _, line in _alerts(view)]
    steps = [Content.assemble((f"  {label:<7}", "$secondary"), plain(text)) for label, text in next_steps(view)]
    return severity, lines + steps


def _alerts(view: LiveView) -> list[tuple[str, Content]]:
    """Return what differs from the promise and what went wrong beside the training, each with its severity here."""
    said: list[tuple[Severity, str]] = [
        (alert.severity, f"{alert.text}. {alert.next_step}") for alert in view.attention.alerts
    ]
    # How a process ended is told again, and better, by how the run ended.
    told = [*([] if view.active else ["process_end"]), *(alert.id for alert in view.attention.alerts)]
    grave = [it for it in view.notices if it.severity != "note"]
    said += [(it.severity, it.text) for it in grave if it.event not in told and it.id not in told]
    looks = {"block": ("error", "✖"), "warn": ("warning", "▲")}
    return [(looks[severity][0], _line(looks[severity][1], f"${looks[severity][0]}", text)) for severity, text in said]


def next_steps(view: LiveView) -> list[tuple[str, str]]:
    """Return what a person does after the end, each as a label and what to copy: where things are, how to go on."""
    steps = []
    if view.way_out:
        steps.append(("mend", view.way_out))
    if view.phase in ("finished", "stopped") and view.output_dir:
        steps.append(("model", view.output_dir))
    if view.phase not in ("finished", "stopped") and view.log:
        steps.append(("log", str(view.log)))
    if view.phase == "finished":
        return steps
    if view.last_checkpoint:
        command = f"kerneltui resume {shlex.quote(str(view.path))}"
        steps.append(("go on", f"r, from the checkpoint of step {view.last_checkpoint.step}: {command}"))
    else:
        steps.append(("go on", "no checkpoint was written; mend the cause and launch it anew"))
    return steps


def _line(sign: str, colour: str, text: str) -> Content:
    return Content.assemble((f"{sign} ", colour), plain(text))
