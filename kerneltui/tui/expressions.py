"""Asking for a regular expression, until it is one."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from textual.screen import Screen

from kerneltui.text import plain_line
from kerneltui.tui.screens.ask_line import AskLine


def ask_expression(
    screen: Screen[Any], title: str, words: str, value: str, then: Callable[[re.Pattern[str] | None], None]
) -> None:
    """Ask for an expression, which stands there as `value`, and give it to `then`; None for an empty line.

    Letters of both cases count as the same where the expression has no capital. One that is invalid is asked for again,
    with what is wrong with it; where the question is left, `then` is not called.
    """

    def answered(line: str | None) -> None:
        if line is None:
            return
        try:
            pattern = re.compile(line, 0 if re.search(r"(?<!\\)[A-Z]", line) else re.IGNORECASE) if line else None
        except (re.error, RecursionError, OverflowError) as error:
            wrong = f"✖ This is no regular expression: {plain_line(str(error))}. \\ before a sign takes it as it is."
            ask_expression(screen, title, wrong, line, then)
            return
        then(pattern)

    screen.app.push_screen(AskLine(title, words, value), answered)
