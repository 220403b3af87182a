"""Each trainer of the `trl` command by keyboard alone: from an empty home to the end of a real run on local data."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable, Input

from kerneltui import demo
from kerneltui.advice.about_trainers import ABOUT
from kerneltui.runs.directory import read_lines
from kerneltui.runs.find import list_runs
from kerneltui.tui.app import KerneltuiApp
from kerneltui.tui.screens.home import HomeScreen
from kerneltui.tui.screens.run import RunScreen
from tests.tui.test_wizard import app, at_step, cells, until
from tests.tui.watching import shown

__all__ = ["app"]

# KTO reads the good answers of pairs first, in their order: in three steps it sees no bad one.
_SILENT = {"kto": ("rewards/rejected", "rewards/margins")}
TRAINERS = ("sft", "dpo", "kto", "reward", "grpo", "rloo", "distillation")


@pytest.mark.full
@pytest.mark.parametrize("trainer", TRAINERS)
async def test_the_keyboard_leads_to_a_finished_run(app: KerneltuiApp, tmp_path: Path, trainer: str) -> None:
    shutil.copy(demo.data_path(trainer), tmp_path / "rows.jsonl")
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, HomeScreen))
        await pilot.press("n")
        await at_step(pilot, 1)
        await pilot.press("enter")
        await _name_data(pilot, "rows.jsonl")
        await _choose(pilot, 3, "#trainers", trainer)
        await _choose(pilot, 4, "#kernels", "sdpa")
        await at_step(pilot, 5)
        await pilot.press("enter")
        await _set_option(pilot, "max_steps", "3")
        await pilot.press("enter")
        screen = await at_step(pilot, 7)
        assert screen.state.situation and screen.state.assessment
        assert not screen.state.assessment.blocked, shown(pilot)
        assert screen.state.plan.trainer == trainer
        await pilot.press("l")

        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        (run,) = list_runs(app.runs)
        await until(pilot, lambda: run.read_state().phase not in ("starting", "running"), limit=400)
        assert run.read_state().phase == "finished"
        logged = [line for line in read_lines(run.metrics) if line["kind"] == "log" and "loss" in line["values"]]
        assert [line["step"] for line in logged] == [1, 2, 3]
        told = {name for line in logged for name in line["values"]}
        silent = set(_SILENT.get(trainer, ()))
        silent |= set() if screen.state.situation.settings.get("beta") else {"kl"}  # no reference, no distance from it
        assert set(ABOUT[trainer].curves) - silent <= told, sorted(told)
        await until(pilot, lambda: "finished" in shown(pilot) and "good: " in shown(pilot))


async def _name_data(pilot: Pilot[Any], name: str) -> None:
    """Type the name of the data over what is recommended, and go on when it was read."""
    screen = await at_step(pilot, 2)
    await until(pilot, lambda: screen.state.situation and screen.state.situation.data)
    await pilot.press("tab")
    await until(pilot, lambda: screen.focused is not None and screen.focused.id == "data")
    await pilot.press("end", "ctrl+u", *name, "enter")
    assert screen.query_one("#data", Input).value == name
    await until(pilot, lambda: name in (screen.state.plan.config or ""))
    await at_step(pilot, 2)
    await until(pilot, lambda: screen.state.situation and screen.state.situation.data)
    await pilot.press("enter")


async def _choose(pilot: Pilot[Any], step: int, selector: str, name: str) -> None:
    """Move to a row by its name, in the second column, and take it."""
    screen = await at_step(pilot, step)
    table: DataTable[Any] = screen.query_one(selector, DataTable)
    await until(pilot, lambda: any(_name(row) == name for row in cells(table)))
    await until(pilot, lambda: screen.state.busy is None)
    while (row := [_name(row) for row in cells(table)].index(name)) != table.cursor_row:
        await pilot.press("down" if table.cursor_row < row else "up")
    await pilot.press("enter")


def _name(row: list[Any]) -> str:
    return str(row[1]).removesuffix(" ←")


async def _set_option(pilot: Pilot[Any], name: str, value: str) -> None:
    """Find an option by its name, and type a value for it."""
    screen = await at_step(pilot, 6)
    table: DataTable[Any] = screen.query_one("#options", DataTable)
    await until(pilot, lambda: table.row_count > 20)
    await pilot.press("slash", *name, "enter")
    await until(pilot, lambda: str(table.get_row_at(0)[1]) == name)
    await pilot.press("home", "space", "end", "ctrl+u", *value, "enter")
    await until(pilot, lambda: f"{name}: {value}\n" in (screen.state.plan.config or ""))
    await at_step(pilot, 6)
