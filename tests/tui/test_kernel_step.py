"""The step that chooses the attention: its verdicts can be read on the narrowest terminal."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import msgspec
import pytest
from textual.widgets import DataTable

from kerneltui.advice.verdict import Verdict
from kerneltui.bench.compare import packages_of
from kerneltui.bench.store import store_of
from kerneltui.tui.app import KerneltuiApp
from kerneltui.tui.screens.home import HomeScreen
from kerneltui.tui.screens.wizard import WizardScreen
from kerneltui.tui.steps.kernel import KernelStep
from tests.advice.situations import COMMUNITY, make_situation
from tests.bench.made import EAGER, SDPA, benchmark, comparison, measured
from tests.tui.watching import until, until_shown

VERDICTS = {
    "sdpa": Verdict(kind="ready", reason="torch's own attention; any model trains with it"),
    f"{COMMUNITY}/vllm-flash-attn3": Verdict(kind="care", reason="its backward was seen to fail for some models"),
    f"{COMMUNITY}/flash-attn4": Verdict(kind="refused", reason="it needs nvidia-cutlass-dsl, which is not installed"),
}


@pytest.fixture(autouse=True)
def _home_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let home, which is behind, not read the server: leaving the app waits for that."""
    monkeypatch.setattr(HomeScreen, "_start_reading", lambda _: None)


def test_a_verdict_is_a_sign_and_a_word_at_80_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make_situation(given={"attn_implementation": "sdpa"})
    monkeypatch.setattr(WizardScreen, "read_server", lambda *_: None)
    monkeypatch.setattr(KernelStep, "judge_all", lambda *_: None)

    async def play() -> None:
        app = KerneltuiApp(Path(sys.executable), tmp_path)
        async with app.run_test(size=(80, 24)) as pilot:
            screen = WizardScreen(made.plan, at=3)
            await app.push_screen(screen)
            await until(pilot, lambda: screen.query("#kernel-why"))
            step = screen.query_one(KernelStep)
            screen.set_state(server=made.server, situation=made, busy=None)
            step.post_message(KernelStep.Found(step._basis or (), [*VERDICTS, f"{COMMUNITY}/flash-attn2"]))
            for name, verdict in VERDICTS.items():
                step.post_message(KernelStep.Judged(name, made, verdict))
            await until_shown(
                pilot,
                "✔ ready sdpa",
                f"▲ with care {COMMUNITY}/vllm-flash-attn3",
                f"✖ refused {COMMUNITY}/flash-attn4",
                f"… asking {COMMUNITY}/flash-attn2",
            )
            step.query_one("#kernels", DataTable).move_cursor(row=2)
            await until_shown(pilot, "it needs nvidia-cutlass-dsl, which is not installed")

    asyncio.run(play())


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
def test_what_was_measured_here_is_told_of_the_row_under_the_cursor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    made = make_situation(given={"attn_implementation": "sdpa"})
    eager = make_situation(given={"attn_implementation": "eager"})
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(WizardScreen, "read_server", lambda *_: None)
    monkeypatch.setattr(KernelStep, "judge_all", lambda *_: None)
    told = msgspec.structs.replace(benchmark(comparison(SDPA, EAGER)), packages=packages_of(made.server))
    store = store_of(told)
    store.begin(told)
    for one in (measured(SDPA, 128, 10, 10), measured(EAGER, 128, 15, 15)):
        store.add(one)

    async def play() -> None:
        app = KerneltuiApp(Path(sys.executable), tmp_path)
        async with app.run_test(size=size) as pilot:
            screen = WizardScreen(made.plan, at=3)
            await app.push_screen(screen)
            await until(pilot, lambda: screen.query("#kernel-why"))
            step = screen.query_one(KernelStep)
            screen.set_state(server=made.server, situation=made, busy=None)
            step.post_message(KernelStep.Found(step._basis or (), ["sdpa", "eager"]))
            ready = Verdict(kind="ready", reason="torch's own attention; any model trains with it")
            step.post_message(KernelStep.Judged("sdpa", made, ready))
            step.post_message(KernelStep.Judged("eager", eager, ready))
            await until_shown(pilot, "any model trains with it", "Measured here: 10.0 ms a step at 128 tokens")
            step.query_one("#kernels", DataTable).move_cursor(row=1)
            await until_shown(pilot, "Measured here: 1.50× the step time of sdpa at 128 tokens, in sft of Qwen3-0.6B")

    asyncio.run(play())
