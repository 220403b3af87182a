"""The way through the wizard by keyboard alone, against the loopback Hub and the real TRL."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable

from kerneltui import demo
from kerneltui.plan.plan import make_plan
from kerneltui.runs.directory import RunDirectory, read_lines
from kerneltui.runs.find import list_runs
from kerneltui.tui.app import KerneltuiApp
from kerneltui.tui.screens.home import HomeScreen
from kerneltui.tui.screens.run import RunScreen
from kerneltui.tui.screens.wizard import WizardScreen
from kerneltui.tui.session import Session
from tests.hub.server import LoopbackHub
from tests.tui import watching
from tests.tui.watching import shown

KERNEL = "kernels-community/flash-attn2"


@pytest.fixture
def app(tmp_path: Path, hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> KerneltuiApp:
    for name, value in hub.environment().items():
        monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    python, runs = Path(sys.executable), tmp_path / "runs"
    return KerneltuiApp(python, runs, session=Session(python, runs, endpoint=hub.url))


async def until(pilot: Pilot[Any], condition: Callable[[], object], *, limit: float = 200) -> None:
    """Wait for a condition of the app; the training packages take long to import."""
    await watching.until(pilot, condition, limit=limit)


def wizard(app: KerneltuiApp) -> WizardScreen:
    assert isinstance(app.screen, WizardScreen)
    return app.screen


async def at_step(pilot: Pilot[Any], number: int) -> WizardScreen:
    """Wait until a step is open and its plan is judged."""
    app: Any = pilot.app
    await until(pilot, lambda: isinstance(app.screen, WizardScreen) and app.screen.at == number - 1)
    screen = wizard(app)
    await until(pilot, lambda: screen.state.assessment is not None and screen.state.busy is None)
    assert screen.state.error is None, screen.state.error
    return screen


async def test_the_keyboard_leads_from_an_empty_home_to_a_run_on_a_hub_kernel(app: KerneltuiApp) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, HomeScreen))
        await until(pilot, lambda: "No runs yet" in shown(pilot))
        await pilot.press("n")
        screen = await at_step(pilot, 1)
        await pilot.press("enter")
        await at_step(pilot, 2)
        await until(pilot, lambda: screen.state.situation and screen.state.situation.data)
        await pilot.press("enter")
        screen = await at_step(pilot, 3)
        await until(pilot, lambda: "✔" in str(app.screen.query_one("#trainers", DataTable).get_cell_at((0, 0))))  # type: ignore[arg-type]
        await pilot.press("enter")

        screen = await at_step(pilot, 4)
        table = app.screen.query_one("#kernels", DataTable)
        await until(pilot, lambda: any("←" in str(row[1]) for row in cells(table)))
        names = [str(row[1]).removesuffix(" ←") for row in cells(table)]
        while names[table.cursor_row] != KERNEL:
            await pilot.press("down" if table.cursor_row < names.index(KERNEL) else "up")
        await pilot.press("enter")

        screen = await at_step(pilot, 5)
        revisions = app.screen.query_one("#revisions", DataTable)
        await until(pilot, lambda: revisions.row_count > 1)
        names = [str(row[1]) for row in cells(revisions)]
        while names[revisions.cursor_row] != "v2":
            await pilot.press("down" if revisions.cursor_row < names.index("v2") else "up")
        await pilot.press("enter")
        await at_step(pilot, 6)
        await pilot.press("enter")
        screen = await at_step(pilot, 7)
        assert f"attn_implementation: {KERNEL}@v2" in (screen.state.plan.config or "")
        await pilot.press("l")

        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        (run,) = list_runs(app.runs)
        await until(pilot, lambda: "step" in shown(pilot) and read_lines(run.metrics))
        await until(pilot, lambda: run.read_state().phase == "finished", limit=400)
        begin = next(event for event in read_lines(run.events) if event["event"] == "train_begin")
        assert begin["attention"] == f"{KERNEL}@v2"
        await until(pilot, lambda: "finished" in shown(pilot))
        await pilot.press("l")
        await until(pilot, lambda: isinstance(app.screen, HomeScreen))
        await until(pilot, lambda: app.screen.query_one("#runs", DataTable).row_count == 1)


def cells(table: DataTable[Any]) -> list[list[Any]]:
    return [table.get_row_at(index) for index in range(table.row_count)]


async def test_a_yaml_that_blocks_is_mended_by_one_key_and_launched(app: KerneltuiApp, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(
        f"# mine\nmodel_name_or_path: {demo.model_path()}\n"
        f"datasets: [{{path: json, data_files: {demo.data_path('sft')}}}]  # the data\n"
        "max_steps: 2\nattn_implementation: sdpa\nreport_to: none\ndataloader_pin_memory: false\n"
    )
    plan = make_plan("sft", ["mine.yaml"], cwd=tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        app.push_screen(WizardScreen(plan))
        screen = await at_step(pilot, 7)
        assert screen.state.plan.config == plan.config, "an untouched file keeps its bytes"
        assert screen.state.assessment and screen.state.assessment.blocked, "there is no GPU here"
        await pilot.press("f")
        await until(pilot, lambda: screen.state.plan != plan and screen.state.busy is None)
        assert screen.state.assessment and not screen.state.assessment.blocked
        assert screen.state.plan.config == f"{plan.config}use_cpu: true\n"
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        run = list_runs(app.runs)[0]
        await until(pilot, lambda: run.read_state().phase == "finished")
        assert (run.attempt(1) / "config.yaml").read_text() == f"{plan.config}use_cpu: true\n"


@pytest.mark.full
async def test_a_run_is_found_again_by_another_app(app: KerneltuiApp, tmp_path: Path) -> None:
    config = tmp_path / "long.yaml"
    config.write_text(demo.config_text(output_dir=None, gpu=False, steps=100000).replace(demo.ATTENTION, "sdpa"))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        app.push_screen(WizardScreen(make_plan("sft", ["long.yaml"], cwd=tmp_path)))
        await at_step(pilot, 7)
        await pilot.press("l")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        await pilot.press("l")
        await until(pilot, lambda: isinstance(app.screen, HomeScreen))
    (run,) = list_runs(app.runs)
    again = KerneltuiApp(app.python, app.runs)
    async with again.run_test(size=(120, 40)) as pilot:
        table = again.screen.query_one("#runs", DataTable)
        await until(pilot, lambda: table.row_count == 1)
        assert run.name in [str(cell) for cell in table.get_row_at(0)]
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(again.screen, RunScreen))
        await until(pilot, lambda: read_lines(run.metrics), limit=120)
        await pilot.press("s")
        await pilot.pause()
        await pilot.press("y")
        await until(pilot, lambda: RunDirectory(run.path).read_state().phase == "stopped")


@pytest.mark.full
async def test_data_with_other_columns_is_seen_and_mended_by_one_key(app: KerneltuiApp, tmp_path: Path) -> None:
    rows = [{"question": f"{number} plus 1?", "answer": str(number + 1)} for number in range(40)]
    (tmp_path / "qa.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "qa.yaml").write_text(
        f"model_name_or_path: {demo.model_path()}\ndatasets: [{{path: json, data_files: qa.jsonl}}]\nuse_cpu: true\n"
    )
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        app.push_screen(WizardScreen(make_plan("sft", ["qa.yaml"], cwd=tmp_path), at=1))
        screen = await at_step(pilot, 2)
        await until(pilot, lambda: screen.state.assessment and screen.state.assessment.blocked)
        await pilot.press("ctrl+t")
        await until(pilot, lambda: "question:" in shown(pilot) and "Row 1 of 40 read" in shown(pilot))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is screen)
        await pilot.press("ctrl+f")
        await until(pilot, lambda: app.screen is screen and "kerneltui-data" in (screen.state.plan.config or ""))
        await until(pilot, lambda: screen.state.busy is None and screen.state.situation and screen.state.situation.data)
        assert screen.state.assessment and not screen.state.assessment.blocked
        await pilot.press("ctrl+t")
        await until(pilot, lambda: "▌ 1<|im_end|>" in shown(pilot) and "0 plus 1?<|im_end|>" in shown(pilot))
