"""The last step of the wizard: what happens before a run starts."""

from __future__ import annotations

import asyncio
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kerneltui import fetch
from kerneltui.advice.situation import Situation
from kerneltui.assess import assess
from kerneltui.errors import KerneltuiError
from kerneltui.fetch import Fetched, Part
from kerneltui.runs import launch
from kerneltui.tui.app import KerneltuiApp
from kerneltui.tui.screens.wizard import WizardScreen
from tests.advice.situations import make_situation
from tests.tui.watching import until, until_shown

MODEL = Part(kind="model", name="Qwen/Qwen2.5-0.5B", revision="main", size=100)


def test_a_run_of_several_ranks_is_fetched_for_once_and_starts_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Situation] = []
    seen = threading.Event()

    def bring(parts: list[Part], situation: Situation, python: Path, *, on_progress: Any) -> Fetched:
        on_progress(MODEL, 50)
        assert seen.wait(60)
        return Fetched(parts=tuple(parts))

    def start(situation: Situation, *_: Any) -> None:
        started.append(situation)
        raise KerneltuiError("No run starts in this test")

    monkeypatch.setattr(fetch, "needed", lambda *_: [MODEL])
    monkeypatch.setattr(fetch, "fetch", bring)
    monkeypatch.setattr(launch, "launch", start)
    monkeypatch.setattr(WizardScreen, "read_server", lambda *_: None)

    async def play() -> None:
        app = KerneltuiApp(Path(sys.executable), tmp_path)
        async with app.run_test(size=(120, 40)) as pilot:
            made = make_situation(given={"attn_implementation": "sdpa"}, processes=2)
            screen = WizardScreen(made.plan)
            await app.push_screen(screen)
            await until(pilot, lambda: all(step.is_mounted for step in screen._steps))
            await until(pilot, lambda: screen.query("#check-verdict"))
            assessment = msgspec.structs.replace(assess(made), findings=())
            screen.set_state(server=made.server, situation=made, assessment=assessment, busy=None)
            await pilot.pause()
            await pilot.press("l")
            await until_shown(pilot, "50% of 0.0 MB")
            seen.set()
            await until_shown(pilot, "No run starts in this test")
            assert started[0].plan.launch.environment["HF_HUB_OFFLINE"] == "1"

    asyncio.run(play())
