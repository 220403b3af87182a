"""The live pane in an app of its own, played by keys; what it shows, as text."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from textual.app import App
from textual.pilot import Pilot
from textual.screen import Screen

import kerneltui.tui
from kerneltui.runs.directory import RunDirectory
from kerneltui.tui.screens.run import RunScreen
from kerneltui.tui.theme import DARK, LIGHT

Play = Callable[[Pilot[str]], Awaitable[None]]


class WatchApp(App[str]):
    """Shows one run, and ends with what its screen gives."""

    CSS_PATH = Path(kerneltui.tui.__file__).with_name("app.tcss")

    def __init__(self, run: RunDirectory, theme: str = DARK.name) -> None:
        super().__init__()
        self.run_screen = RunScreen(run)
        self.register_theme(DARK)
        self.register_theme(LIGHT)
        self.theme = theme

    def on_mount(self) -> None:
        self.push_screen(self.run_screen, lambda line: self.exit(line))


def watch(run: RunDirectory, play: Play, *, size: tuple[int, int] = (120, 40), theme: str = DARK.name) -> str | None:
    """Open the run, wait until it is read and drawn, play, and return what the app ends with."""
    app = WatchApp(run, theme)
    app.run_screen.INTERVAL = 0.05
    app.run_screen.CURVES = 0.05
    app.run_screen.PAUSE = 0.001

    async def run_app() -> None:
        async with app.run_test(size=size) as pilot:
            await until(pilot, lambda: app.run_screen.view is not None and not app.run_screen.view.behind)
            await until(pilot, lambda: app.run_screen.curves is not None)
            await pilot.pause()
            await play(pilot)

    asyncio.run(run_app())
    return app.return_value


async def until(pilot: Pilot[str], condition: Callable[[], object], *, limit: float = 120) -> None:
    """Let the app work until a condition holds; fails when it does not within `limit` seconds."""
    deadline = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < deadline, f"not within {limit:.0f} s; the screen says:\n{shown(pilot)}"
        await pilot.pause(0.01)


async def until_shown(pilot: Pilot[str], *texts: str) -> None:
    """Let the app work until the screen shows these texts, wherever their lines are broken."""
    wanted = [without_breaks(text) for text in texts]
    await until(pilot, lambda: all(text in without_breaks(shown(pilot)) for text in wanted))


def without_breaks(text: str) -> str:
    """Return a text without blanks, ends of lines and borders."""
    return re.sub(r"[\s│▌╭╮╰╯─]", "", text)


def rows(pilot: Pilot[str]) -> list[str]:
    """Return the rows of the screen as they are drawn."""
    return text_of(pilot.app.screen).split("\n")


def text_of(screen: Screen[Any]) -> str:
    """Return a screen as it is drawn, as text."""
    return "\n".join("".join(segment.text for segment in strip) for strip in screen._compositor.render_strips())


def shown(pilot: Pilot[str]) -> str:
    """Return the whole screen as text."""
    return text_of(pilot.app.screen)
