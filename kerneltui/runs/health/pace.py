"""A run that takes no step for many times the usual time, and says nothing."""

from __future__ import annotations

from collections.abc import Iterator

from kerneltui.runs.alert import Alert
from kerneltui.runs.health.window import Window
from kerneltui.text import duration

# How many times the usual step, and at least how long: checkpoints and evaluations lie between steps. Seconds.
_TIMES = 20
_LEAST = 180.0
# The first step may compile kernels and warm caches.
_FIRST = 1200.0


def find(window: Window) -> Iterator[Alert]:
    """Give one alert where steps have stopped and the process neither records nor prints (an evaluation prints)."""
    if window.stepping is None or window.heard is None:
        return
    usual = window.step_seconds
    last = max([window.stepping, *(pace.time for pace in window.paces[-1:])])
    limit = _FIRST if usual is None else max(_LEAST, _TIMES * usual)
    silent = (window.now - max(last, window.heard)).total_seconds()
    if silent <= limit:
        return
    why = f"A step takes {duration(usual)} as a rule" if usual and usual >= 1 else "Steps come every second as a rule"
    yield Alert(
        id="stalled", severity="block", since=max(last, window.heard).isoformat(timespec="seconds"),
        text=f"no step for {duration(silent)}: training stands still",
        why=f"{why}, and nothing was printed." if usual is not None else "Not even the first step has ended.",
        next_step="Where it stands is in attempts/N/stacks-RANK.txt. `kerneltui stop RUN --now`, then "
        "`kerneltui resume RUN`.",
    )  # fmt: skip
