"""Terminals without colour, and terminals that show ASCII alone."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from kerneltui.tui.app import KerneltuiApp
from kerneltui.tui.filters import needs_ascii, to_ascii
from tests.tui import fake_runs
from tests.tui.watching import rows, until


@pytest.mark.parametrize(
    ("environment", "encoding", "needed"),
    [
        ({}, "utf-8", False), ({}, None, False), ({"TERM": "xterm-256color"}, "UTF-8", False),
        ({"TERM": "linux"}, "utf-8", True), ({}, "iso-8859-1", True), ({"KERNELTUI_ASCII": "1"}, "utf-8", True),
        ({"KERNELTUI_ASCII": "0", "TERM": "linux"}, "utf-8", False),
    ],
)  # fmt: skip
def test_when_ascii_is_needed(environment: dict[str, str], encoding: str | None, needed: bool) -> None:
    assert needs_ascii(environment, encoding) is needed


@pytest.mark.parametrize("text", ["╭─ loss ── 1.8 ↓ ─╮", "… asking", "kern…tui", "⠈⠉⠒⠤⡀", "✔ ▲ ✖ · ● ○ ←", "你好 🎉 é"])
def test_a_text_keeps_its_width(text: str) -> None:
    assert cell_len(to_ascii(text)) == cell_len(text)
    assert to_ascii(text, "ascii").isascii()
    assert cell_len(to_ascii(text, "ascii")) == cell_len(text)


def test_signs_are_those_of_plain_words() -> None:
    assert to_ascii("✔ ▲ ✖ ·") == "+ ! x -"
    assert (to_ascii("… asking"), to_ascii("kern…tui")) == ("? asking", "kern~tui")


async def live_pane(tmp_path: Path) -> tuple[list[str], list[Any]]:
    """Return the rows of a running run's pane, and the colours of its characters."""
    fake = fake_runs.running(tmp_path / "runs")
    app = KerneltuiApp(Path(sys.executable), tmp_path / "runs", watch=fake.run)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: any("loss" in row for row in rows(pilot)))
        await pilot.pause()
        styles = [segment.style for strip in app.screen._compositor.render_strips() for segment in strip]
        return rows(pilot), [colour for style in styles if style for colour in (style.color, style.bgcolor) if colour]


async def test_the_live_pane_in_ascii_keeps_its_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELTUI_ASCII", "1")
    shown, colours = await live_pane(tmp_path)
    assert all(row.isascii() and len(row) == 120 for row in shown)
    assert any("+- loss" in row for row in shown)
    assert colours


async def test_no_color_takes_every_colour_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    shown, colours = await live_pane(tmp_path)
    assert any("● running" in row for row in shown)
    assert not colours
