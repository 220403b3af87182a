"""A screen behind another one costs that one nothing."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from textual._compositor import Compositor
from textual.widgets import Static

from kerneltui.tui.app import KerneltuiApp
from kerneltui.tui.screens.base import BaseScreen
from kerneltui.tui.screens.dialog import Dialog
from tests.tui.watching import shown, until


def test_only_what_can_be_seen_through_the_front_draws_it_anew(tmp_path: Path) -> None:
    async def play() -> None:
        app = KerneltuiApp(Path(sys.executable), tmp_path)
        async with app.run_test(size=(100, 30)) as pilot:
            behind: BaseScreen[None] = BaseScreen()
            await app.push_screen(behind)
            text = Static("first")
            await behind.mount(text)
            await until(pilot, lambda: "first" in shown(pilot))

            front: BaseScreen[None] = BaseScreen()
            await app.push_screen(front)
            await pilot.pause()
            drawn: list[Compositor] = []
            front._compositor.render_update = lambda **_: drawn.append(front._compositor)  # type: ignore[method-assign]
            text.update("second")
            await pilot.pause()
            await pilot.pause()
            assert drawn == []

            app.pop_screen()
            await until(pilot, lambda: "second" in shown(pilot))
            await app.push_screen(Dialog("Dialog", "words"))
            text.update("third")
            await until(pilot, lambda: "third" in text_behind(app))

    asyncio.run(play())


def text_behind(app: KerneltuiApp) -> str:
    """Return what is drawn of the screens behind the front."""
    strips = (strip for screen in app._background_screens for strip in screen._compositor.render_strips())
    return "\n".join("".join(segment.text for segment in strip) for strip in strips)
