"""The title of the terminal's window, which a background tab shows: set while a run is watched, then put back.

Textual has no public way to write to the terminal; `_write` is the one place that uses its driver.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from textual.app import App

from kerneltui.runs.directory import PHASE_SIGNS
from kerneltui.runs.live_view import LiveView
from kerneltui.text import cut_middle, duration, plain_line
from kerneltui.tui.widgets.words import short

# Keep the present title on the terminal's stack and take it from there again; set another. Source: xterm's
# "Control Sequences", XTWINOPS 22 and 23, and OSC 2. Terminals that lack the stack leave the title to the shell.
_KEEP, _PUT_BACK = "\x1b[22;2t", "\x1b[23;2t"
_SET = "\x1b]2;{}\x1b\\"
_LONGEST, _NAME = 80, 24
# Terminals that have no title, or print what they do not know.
_WITHOUT = ("dumb", "linux", "unknown")
_SHORT_OF_SECONDS = 60


class TerminalTitle:
    """The title while a screen is open. Does nothing where `app` has no terminal that has a title."""

    def __init__(self, app: App[Any]) -> None:
        self._app = app
        self._shown = ""

    def show(self, title: str) -> None:
        """Show a title; the one that was there before is kept for `put_back`. To show the same again costs nothing."""
        words = cut_middle(plain_line(title), _LONGEST)
        if words == self._shown or not _has_title(self._app, os.environ):
            return
        _write(self._app, ("" if self._shown else _KEEP) + _SET.format(words))
        self._shown = words

    def put_back(self) -> None:
        """Show what was there before."""
        if self._shown:
            _write(self._app, _PUT_BACK)
            self._shown = ""


def title_of(view: LiveView) -> str:
    """Return what a background tab must tell of a run: where it is, its loss, the time left, or how it ended."""
    name = cut_middle(plain_line(view.name), _NAME)
    sign = PHASE_SIGNS.get(view.phase or "", PHASE_SIGNS["failed"])
    loss = view.metrics["loss"].last if "loss" in view.metrics else None
    parts = [
        None if view.phase == "running" and view.step is not None else view.phase or "unreadable",
        _how_far(view),
        f"loss {short(loss[1])}" if loss else None,
        f"{_coarse(view.seconds_left)} left" if view.active and view.seconds_left is not None else None,
    ]
    return f"{sign} {' · '.join(filter(None, parts))} · {name}"


def _how_far(view: LiveView) -> str | None:
    if view.step is None:
        return None
    return f"{view.step}/{view.total}" if view.total else f"step {view.step}"


def _coarse(seconds: float) -> str:
    """Return a span without the seconds of minutes: a title that changes at each of them is a restless one."""
    return duration(seconds if seconds < _SHORT_OF_SECONDS else seconds // 60 * 60)


def _has_title(app: App[Any], environment: Mapping[str, str]) -> bool:
    """Return whether what Textual writes to is a terminal, and one with a title."""
    stream = sys.__stderr__
    if app.is_headless or app.is_web or stream is None or not stream.isatty():
        return False
    return environment.get("TERM", "unknown") not in _WITHOUT


def _write(app: App[Any], sequence: str) -> None:
    """Write a control sequence between what Textual writes, in its order."""
    if app._driver is not None:
        app._driver.write(sequence)
        app._driver.flush()
