"""The list of runs on home: narrowed, sorted, tagged, and cleared of what is not wanted any more."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from textual.widgets import Input

from kerneltui.runs.notes import read_notes
from kerneltui.tui.app import KerneltuiApp
from kerneltui.tui.screens.home import HomeScreen
from tests.runs.fakes import ago, make_record, make_run
from tests.tui.watching import shown, until


async def test_runs_are_narrowed_sorted_tagged_and_removed_by_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(HomeScreen, "read_server", lambda *_, **__: None)
    runs = {}
    for place, name in enumerate(("apple", "banana", "cherry")):
        run = make_run(tmp_path / "runs" / name, "", phase="stopped", started=ago(100 * place), ended=ago(10))
        make_record(run)
        runs[name] = run
    app = KerneltuiApp(Path(sys.executable), tmp_path / "runs")
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: all(name in shown(pilot) for name in runs))
        await pilot.press("t")
        await until(pilot, lambda: bool(app.screen.query(Input)))
        await pilot.press(*"base", "enter")
        await until(pilot, lambda: "apple #base" in shown(pilot))
        assert read_notes(runs["apple"]).tags == ("base",)

        await pilot.press("slash")
        await until(pilot, lambda: bool(app.screen.query(Input)))
        await pilot.press(*"#base", "enter")
        await until(pilot, lambda: "only #base" in shown(pilot) and "banana" not in shown(pilot))
        await pilot.press("slash")
        await until(pilot, lambda: bool(app.screen.query(Input)))
        app.screen.query_one(Input).clear()
        await pilot.press("enter")
        await until(pilot, lambda: "banana" in shown(pilot))
        await pilot.press("S")
        await until(pilot, lambda: "by loss" in shown(pilot))

        await pilot.press("delete")
        await until(pilot, lambda: "This cannot be undone" in shown(pilot))
        await pilot.press("enter")  # the answer that does no harm
        await until(pilot, lambda: "This cannot be undone" not in shown(pilot))
        assert all(run.path.exists() for run in runs.values())
        await pilot.press("delete")
        await until(pilot, lambda: "This cannot be undone" in shown(pilot))
        await pilot.press("y")
        await until(pilot, lambda: sum(run.path.exists() for run in runs.values()) == 2)
