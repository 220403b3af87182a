"""The last step of the wizard: what happens before a run starts."""

from __future__ import annotations

import asyncio
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest
from textual.pilot import Pilot

from kerneltui import fetch
from kerneltui.advice.situation import Situation
from kerneltui.assess import assess
from kerneltui.errors import KerneltuiError
from kerneltui.facts.proof import Proof, Raised
from kerneltui.fetch import Fetched, Part
from kerneltui.prove.prove import OnProgress, OnProof, Proving
from kerneltui.runs import launch
from kerneltui.tui.app import KerneltuiApp
from kerneltui.tui.screens.home import HomeScreen
from kerneltui.tui.screens.wizard import WizardScreen
from kerneltui.tui.session import Session
from kerneltui.tui.widgets.proof_note import ProofNote
from tests.advice.situations import make_situation
from tests.facts.test_proof import BAD, PREFLIGHT, REHEARSAL
from tests.tui.watching import shown, until, until_shown

MODEL = Part(kind="model", name="Qwen/Qwen2.5-0.5B", revision="main", size=100)


@pytest.fixture(autouse=True)
def _home_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let home, which is behind, not read the server: leaving the app waits for that."""
    monkeypatch.setattr(HomeScreen, "_start_reading", lambda _: None)


async def open_check(pilot: Pilot[Any], made: Situation, part: str) -> None:
    """Open the wizard on a plan of which nothing is said, and wait for a part of its last step."""
    screen = WizardScreen(made.plan)
    await pilot.app.push_screen(screen)
    await until(pilot, lambda: all(step.is_mounted for step in screen._steps))
    await until(pilot, lambda: screen.query(part))
    assessment = msgspec.structs.replace(assess(made), findings=())
    screen.set_state(server=made.server, situation=made, assessment=assessment, busy=None)
    await pilot.pause()


def test_a_run_of_several_ranks_is_fetched_for_once_and_starts_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Situation] = []
    seen = threading.Event()

    def bring(parts: list[Part], situation: Situation, python: Path, *, on_progress: Any) -> Fetched:
        on_progress(MODEL, 50)
        assert seen.wait(60)
        return Fetched(parts=tuple(parts))

    def start(situation: Situation, *_: Any, **__: Any) -> None:
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
            await open_check(pilot, made, "#check-verdict")
            await pilot.press("l")
            await until_shown(pilot, "50% of 0.0 MB")
            seen.set()
            await until_shown(pilot, "No run starts in this test")
            assert started[0].plan.launch.environment["HF_HUB_OFFLINE"] == "1"

    asyncio.run(play())


def test_one_key_tries_the_plan_and_a_proof_that_failed_asks_before_the_launch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched: list[dict[str, Any]] = []
    seen = threading.Event()
    bad = Proof(time="t", preflight=msgspec.structs.replace(PREFLIGHT, checks=(BAD,)), unmade={"rehearsal": "no data"})

    def run(self: Proving, on_progress: OnProgress, on_proof: OnProof) -> Proof:
        on_progress("preflight", "2 of 5: dense 65")
        assert seen.wait(60)
        on_proof(bad)
        return bad

    def start(*_: Any, **options: Any) -> None:
        launched.append(options)
        raise KerneltuiError("No run starts in this test")

    monkeypatch.setattr(Proving, "run", run)
    monkeypatch.setattr(Session, "prepare", lambda self: None)
    monkeypatch.setattr(launch, "launch", start)
    monkeypatch.setattr(WizardScreen, "read_server", lambda *_: None)

    async def play() -> None:
        app = KerneltuiApp(Path(sys.executable), tmp_path)
        async with app.run_test(size=(120, 40)) as pilot:
            made = make_situation(given={"attn_implementation": "sdpa"})
            await open_check(pilot, made, "#check-proof")
            await pilot.press("p")
            await until_shown(pilot, "preflight: 2 of 5: dense 65")
            await pilot.press("l")
            await pilot.pause()
            assert not launched  # it waits for what is being tried
            seen.set()
            await until_shown(pilot, "backward: it raised", "No rehearsal: no data")
            await pilot.press("l")
            await until_shown(pilot, "Launch all the same?")
            assert not launched
            await pilot.press("y")
            await until_shown(pilot, "No run starts in this test")
            assert launched == [{"forced": True, "proof": bad}]

    asyncio.run(play())


def test_another_plan_ends_the_proof_of_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cancelled = threading.Event()

    def run(self: Proving, on_progress: OnProgress, on_proof: OnProof) -> Proof:
        on_progress("preflight", "loading")
        assert cancelled.wait(60)
        raise KerneltuiError("The proof was ended")

    monkeypatch.setattr(Proving, "run", run)
    monkeypatch.setattr(Proving, "cancel", lambda self: cancelled.set())
    monkeypatch.setattr(WizardScreen, "read_server", lambda *_: None)

    async def play() -> None:
        app = KerneltuiApp(Path(sys.executable), tmp_path)
        async with app.run_test(size=(120, 40)) as pilot:
            made = make_situation(given={"attn_implementation": "sdpa"})
            screen = WizardScreen(made.plan)
            await app.push_screen(screen)
            await until(pilot, lambda: screen.query("#check-proof"))
            screen.set_state(server=made.server, situation=made, assessment=assess(made), busy=None)
            await pilot.pause()
            await pilot.press("p")
            await until_shown(pilot, "preflight: loading")
            screen.set_state(plan=msgspec.structs.replace(made.plan, trainer="dpo"))
            await until(pilot, cancelled.is_set)
            assert not screen.query_one(ProofNote).busy

    asyncio.run(play())


def test_what_a_rehearsal_found_is_among_the_findings_until_the_plan_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raised = Raised(type="ValueError", message="At most one of fp16 and bf16 can be True, but not both")
    failed = Proof(time="t", rehearsal=msgspec.structs.replace(REHEARSAL, raised=raised))
    launched: list[dict[str, Any]] = []

    def start(*_: Any, **options: Any) -> None:
        launched.append(options)
        raise KerneltuiError("No run starts in this test")

    monkeypatch.setattr(Proving, "run", lambda *_: failed)
    monkeypatch.setattr(Session, "prepare", lambda self: None)
    monkeypatch.setattr(launch, "launch", start)
    monkeypatch.setattr(WizardScreen, "read_server", lambda *_: None)
    monkeypatch.setattr(WizardScreen, "judge", lambda *_: None)
    title = "The trainer raised in its rehearsal"

    async def play() -> None:
        app = KerneltuiApp(Path(sys.executable), tmp_path)
        async with app.run_test(size=(120, 40)) as pilot:
            made = make_situation(given={"attn_implementation": "sdpa", "fp16": True, "bf16": True})
            screen = WizardScreen(made.plan)
            await app.push_screen(screen)
            await until(pilot, lambda: screen.query("#check-proof"))
            assessment = msgspec.structs.replace(assess(made), findings=())
            screen.set_state(server=made.server, situation=made, assessment=assessment, busy=None)
            await pilot.pause()
            await pilot.press("p")
            await until_shown(pilot, title, "Something blocks")
            screen.judge_tried(made.plan, made)  # as when its data comes later
            await until_shown(pilot, title)
            await pilot.press("l")
            await until_shown(pilot, "Launch all the same?")
            await pilot.press("n")
            await until(pilot, lambda: app.screen is screen)
            assert not launched
            await pilot.press("f")
            await until(pilot, lambda: screen.state.plan != made.plan)
            assert "fp16" not in (screen.state.plan.config or "")
            screen.post_message(WizardScreen.Assessed(screen.state.plan, made, assessment))
            await until(pilot, lambda: screen.state.busy is None)
            assert title not in shown(pilot)

    asyncio.run(play())
