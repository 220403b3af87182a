"""The server report on screen, for recorded servers: what is wrong comes first, and keys copy what mends it."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest
from textual.pilot import Pilot

from kerneltui.facts.server import Server
from kerneltui.tui.app import KerneltuiApp
from kerneltui.tui.screens.doctor import DoctorScreen
from kerneltui.tui.screens.home import HomeScreen
from kerneltui.tui.session import Session
from tests.advice.situations import H200, make_server
from tests.tui.watching import rows, shown, until, until_shown

OLD_DRIVER = msgspec.structs.replace(make_server(H200), driver="525.60.13", driver_cuda="12.0")
BLIND = msgspec.structs.replace(
    OLD_DRIVER, torch=msgspec.structs.replace(OLD_DRIVER.torch or pytest.fail("no torch"), device_count=0)
)


@pytest.fixture(autouse=True)
def _own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def app_on(server: Server, folder: Path) -> KerneltuiApp:
    python = Path(sys.executable)
    return KerneltuiApp(python, folder / "runs", session=Session(python, folder / "runs", recorded=server))


async def open_doctor(pilot: Pilot[str]) -> None:
    await until(pilot, lambda: isinstance(pilot.app.screen, HomeScreen))
    await pilot.press("d")
    await until(pilot, lambda: isinstance(pilot.app.screen, DoctorScreen))
    await until_shown(pilot, "Findings", "✖", "▲")


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_what_blocks_comes_first_with_the_command_that_mends_it(tmp_path: Path, size: tuple[int, int]) -> None:
    app = app_on(BLIND, tmp_path)
    async with app.run_test(size=size) as pilot:
        await open_doctor(pilot)
        assert "✖ 1" in rows(pilot)[1]
        assert "✖ The driver runs CUDA 12.0, and torch is built for CUDA 13.0" in rows(pilot)[2]
        assert "525.60.13 is too old for this torch" in shown(pilot)
        await pilot.press("c")
        assert "--force-reinstall torch" in app.clipboard
        await pilot.press("enter")
        await until_shown(pilot, "→ Install a torch that is built for CUDA 12.8")
        await pilot.press("escape", "escape")
        await until(pilot, lambda: isinstance(app.screen, HomeScreen))


async def test_a_healthy_server_says_so(tmp_path: Path) -> None:
    app = app_on(make_server(H200), tmp_path)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await open_doctor(pilot)
        assert "✖ 0  ▲ 0  · 0" in rows(pilot)[1]
        assert "Nothing is wrong with this server." in shown(pilot)
        await pilot.press("c")
        await until_shown(pilot, "No command")
        assert not app.clipboard


async def test_the_report_is_copied_and_written(tmp_path: Path) -> None:
    app = app_on(BLIND, tmp_path)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await open_doctor(pilot)
        await pilot.press("y")
        await until(pilot, lambda: app.clipboard)
        await until_shown(pilot, "Copied")
    written = (tmp_path / "cache" / "kerneltui" / "doctor.txt").read_text()
    assert written == app.clipboard
    assert written.startswith("✖ The driver runs CUDA 12.0")
    assert "NVIDIA H200" in written


async def test_names_that_look_like_markup_are_shown_as_they_are(tmp_path: Path) -> None:
    server = make_server(("[/red] 显卡 🚀", (7, 0)))
    app = app_on(msgspec.structs.replace(server, hostname="[b"), tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await open_doctor(pilot)
        assert "[b, by its report of 2026-12-01 · [/red] 显卡 🚀 ×1" in rows(pilot)[0]
        assert "[/red] 显卡 🚀" in rows(pilot)[2]
