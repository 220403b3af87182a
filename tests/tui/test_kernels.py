"""The kernels of the loopback Hub on screen, judged for a recorded server."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable

from kerneltui.facts.server import Server
from kerneltui.records import read_record
from kerneltui.tui.app import KerneltuiApp
from kerneltui.tui.screens.home import HomeScreen
from kerneltui.tui.screens.kernels import KernelsScreen
from kerneltui.tui.screens.repository import RepositoryScreen
from kerneltui.tui.session import Session
from tests.hub.server import LoopbackHub
from tests.tui.watching import rows, shown, until, until_shown

H200 = read_record(Path(__file__).parents[1] / "servers" / "h200.json", Server)


@pytest.fixture
def app(tmp_path: Path, hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> KerneltuiApp:
    for name, value in hub.environment().items():
        monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    python = Path(sys.executable)
    session = Session(python, tmp_path / "runs", recorded=H200, endpoint=hub.url)
    return KerneltuiApp(python, tmp_path / "runs", session=session)


async def open_kernels(pilot: Pilot[str]) -> None:
    await until(pilot, lambda: isinstance(pilot.app.screen, HomeScreen))
    await pilot.press("k")
    await until(pilot, lambda: isinstance(pilot.app.screen, KernelsScreen))


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_each_kernel_for_attention_gets_its_verdict_and_opens(app: KerneltuiApp, size: tuple[int, int]) -> None:
    async with app.run_test(size=size) as pilot:
        await open_kernels(pilot)
        await until_shown(pilot, "16 of 16 for attention judged")
        table = app.screen.query_one(DataTable)
        names = [str(row[1]) for row in map(table.get_row_at, range(table.row_count))]
        assert names[0] == "flash-attn3"
        while str(table.get_row_at(table.cursor_row)[1]) != "flash-attn2":
            await pilot.press("down" if table.cursor_row < names.index("flash-attn2") else "up")
        await until_shown(pilot, "loads v4 @", "torch-stable-abi210-cu130")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, RepositoryScreen))
        await until_shown(pilot, "v4", "default", "✔ metadata")
        await pilot.press("down", "y")
        assert app.clipboard == "kernels-community/flash-attn2@v3"
        await pilot.press("escape", "escape")
        await until(pilot, lambda: isinstance(app.screen, HomeScreen))


async def test_a_name_narrows_the_list_and_enter_searches_all_publishers(app: KerneltuiApp, hub: LoopbackHub) -> None:
    hub.add("kernel", "someone/paged-thing", {"build/torch-cuda/__init__.py": b""})
    async with app.run_test(size=(120, 40)) as pilot:
        await open_kernels(pilot)
        await until_shown(pilot, "16 of 16 for attention judged")
        await pilot.press("slash", *"paged")
        await until_shown(pilot, "1 kernels")
        await pilot.press("enter")
        await until_shown(pilot, "2 kernels", "someone/paged-thing")
        await pilot.press("escape")
        await until_shown(pilot, "16 of 16 for attention judged")


async def test_names_from_the_hub_are_shown_as_they_are(app: KerneltuiApp, hub: LoopbackHub) -> None:
    hub.add("kernel", "kernels-community/[/red]\x1b[31m注意🚀", {"build/torch-cuda/__init__.py": b""})
    async with app.run_test(size=(80, 24)) as pilot:
        await open_kernels(pilot)
        await until_shown(pilot, "16 of 16 for attention judged")
        await pilot.press("slash", *"[/red]")
        await until_shown(pilot, "1 kernels", "[/red]", "注意🚀")
        assert "\x1b" not in shown(pilot)


async def test_a_hub_out_of_reach_is_said_and_what_was_kept_is_shown(app: KerneltuiApp, hub: LoopbackHub) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        await open_kernels(pilot)
        await until_shown(pilot, "16 of 16 for attention judged")
        await pilot.press("escape")
        hub.fail(status=503)
        await pilot.press("k")
        await until_shown(pilot, "16 of 16 for attention judged")
        await pilot.press("r")
        await until_shown(pilot, "16 of 16 for attention judged", "shown is what was kept")
        assert "flash-attn3" in rows(pilot)[3]
