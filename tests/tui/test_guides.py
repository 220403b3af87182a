"""Ready plans by keyboard: chosen on home, opened in the wizard at the choice of the kernel."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

from kerneltui.facts.server import Server
from kerneltui.records import read_record
from kerneltui.tui.app import KerneltuiApp
from kerneltui.tui.screens.guides import GuidesScreen
from kerneltui.tui.screens.wizard import WizardScreen
from tests.tui.watching import until, until_shown

SERVER = Path(__file__).parents[1] / "servers" / "no-gpu.json"


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_a_ready_plan_is_two_keys_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    monkeypatch.setattr("kerneltui.tui.screens.home.HomeScreen._start_reading", lambda _: None)
    monkeypatch.setattr(WizardScreen, "read_server", lambda *_: None)
    monkeypatch.chdir(tmp_path)
    server = msgspec.structs.replace(read_record(SERVER, Server), environment={}, hub=None)
    app = KerneltuiApp(Path(sys.executable), tmp_path, recorded=server)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        await pilot.press("g")
        await until(pilot, lambda: isinstance(app.screen, GuidesScreen))
        await until_shown(
            pilot, "Chat model", "Mathematics, a trial", "sft on trl-lib/Capybara. The CPU: this server has no GPU"
        )
        await pilot.press("down", "down", "down", "enter")
        await until(pilot, lambda: isinstance(app.screen, WizardScreen))
        screen = app.screen
        assert isinstance(screen, WizardScreen)
        await until(pilot, lambda: screen.is_mounted and screen.at == 3)
        assert screen.state.plan.trainer == "reward"
        assert "dataset_name: trl-lib/ultrafeedback_binarized" in (screen.state.plan.config or "")
        await pilot.press("escape")
        await until(pilot, lambda: screen.at == 2)
