"""The one table of keys: footer, help and commands of every step are made from it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from kerneltui.advice.finding import SIGNS
from kerneltui.assess import assess
from kerneltui.tui.app import KerneltuiApp
from kerneltui.tui.keys import EVERYWHERE, name_of
from kerneltui.tui.screens.help import HelpScreen
from kerneltui.tui.steps.kernel import KernelStep
from kerneltui.tui.steps.model import ModelStep
from kerneltui.tui.steps.revision import RevisionStep
from tests.tui.test_hostile_names import Asked, situation
from tests.tui.watching import rows, shown, until


async def test_every_step_has_its_keys_in_footer_help_and_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kerneltui.tui.screens.home.HomeScreen._start_reading", lambda _: None)
    monkeypatch.setattr(KernelStep, "judge_all", lambda *_: None)
    monkeypatch.setattr(RevisionStep, "find", lambda *_: None)
    found = situation(tmp_path)
    app = KerneltuiApp(Path(sys.executable), tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        screen: Any = Asked(found.plan, at=0)
        app.push_screen(screen)
        await until(pilot, lambda: app.screen is screen and bool(screen.query("#options")))
        await pilot.pause()
        screen.set_state(server=found.server, situation=found, assessment=assess(found), busy=None)
        for number in range(7):
            screen.go(number)
            await pilot.pause()
            typing = isinstance(screen.step, ModelStep)
            footer = rows(pilot)[-1]
            assert footer.rstrip().endswith("f1 Help" if typing else "? Help")
            assert f"enter {screen.step.ENTER}" in footer
            assert sum(key.footer for key in (*screen.KEYS, *EVERYWHERE)) <= 9
            assert rows(pilot)[0].count(SIGNS["ready"]) == number
            commands = {command.title for command in app.get_system_commands(screen)}
            assert {key.label for key in screen.KEYS if key.action != "back"} <= commands
            await pilot.press("f1")
            await until(pilot, lambda: isinstance(app.screen, HelpScreen))
            assert screen.PURPOSE.split()[0] in shown(pilot)
            assert all(name_of(key) in shown(pilot) for key in screen.step.KEYS)
            await pilot.press("escape")
