"""A recorded server in the full screen: every screen says whose report it is, and nothing is launched."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kerneltui import demo
from kerneltui.plan.plan import make_plan
from kerneltui.tui.app import KerneltuiApp
from kerneltui.tui.screens.wizard import WizardScreen
from kerneltui.tui.session import Session
from tests.hub.server import LoopbackHub
from tests.servers import recorded
from tests.tui.watching import shown, until

REPORT = "h200, by its report of 2026-12-01"


async def test_a_recorded_server_is_named_and_nothing_is_launched(
    tmp_path: Path, hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.yaml").write_text(
        f"model_name_or_path: {demo.model_path()}\ndatasets:\n- path: json\n  data_files: {demo.data_path('sft')}\n"
        "dtype: bfloat16\nreport_to: none\n"
    )
    python, runs = Path(sys.executable), tmp_path / "runs"
    session = Session(python, runs, endpoint=hub.url, recorded=recorded("h200"))
    app = KerneltuiApp(python, runs, session=session)
    async with app.run_test(size=(100, 30), notifications=True) as pilot:
        await until(pilot, lambda: REPORT in shown(pilot))
        screen = WizardScreen(make_plan("sft", ["c.yaml"]))
        await app.push_screen(screen)
        await until(pilot, lambda: screen.state.assessment is not None and screen.state.busy is None, limit=200)
        assert f"Check · for {REPORT}" in shown(pilot)
        await until(pilot, lambda: "✔ Ready. e exports it for that machine." in shown(pilot))
        assert screen.state.situation
        assert screen.state.situation.elsewhere
        await pilot.press("l")
        await until(pilot, lambda: "another machine" in shown(pilot))
        assert not runs.exists()
