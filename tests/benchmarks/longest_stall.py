"""How long the screen is deaf at most: `python -m tests.benchmarks.longest_stall [ROUNDS]`.

Each round starts kerneltui and an empty Textual app side by side, each on a pty of 120×40, and asks both event loops
every few milliseconds to come back. While kerneltui's wizard waits for an asker that imports TRL and for a Hub that
takes five seconds for every answer, then while the list of kernels waits for the same Hub, and then while its live
pane follows a log that grows by 50 lines a second, the longest delays of both are taken. Both have the same machine at
the same time, so what others do there weighs on both; but the busier one the more, since it waits for a processor more
often. So each delay is also told without the time that the thread was ready and had no processor (Linux: schedstat).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pty
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from textual.app import App, ComposeResult
from textual.screen import Screen
from textual.widgets import Footer, Static

import kerneltui.tui
from kerneltui import demo
from kerneltui.plan.plan import Plan
from tests.benchmarks.first_frame import set_size
from tests.hub.server import LoopbackHub
from tests.tui.fake_runs import FakeRun

PAUSE = 0.002
LINES = 50
# How long each part is watched at least, in seconds, and at most, where its screen still waits for the Hub; how long
# a screen that was just opened is left alone before that.
PARTS = {"wizard": 25.0, "kernels": 15.0, "live": 10.0}
AT_MOST = 120.0
OPENING = 4.0


class Empty(App[None]):
    """Shows nothing, and notes how late its event loop came back at which time, until it is killed."""

    BINDINGS = [("q", "quit", "Quit")]

    def __init__(self, told: Path) -> None:
        super().__init__()
        self.told = told

    def compose(self) -> ComposeResult:
        yield Footer()

    def on_mount(self) -> None:
        self.run_worker(self.measure())

    async def measure(self) -> None:
        with self.told.open("w", encoding="utf-8") as file:
            while True:
                print(time.monotonic(), *await delay(0.25), file=file, flush=True)


def queued() -> float:
    """Return for how long this thread has waited for a processor, in seconds."""
    return int(Path(f"/proc/self/task/{threading.get_native_id()}/schedstat").read_text().split()[1]) / 1e9


async def delay(seconds: float, goes_on: Callable[[], bool] = lambda: False) -> tuple[float, float]:
    """Return how late the event loop came back at most, and at most without waiting for a processor, in seconds.

    It looks for so many seconds, and longer as long as `goes_on` says so.
    """
    longest, own, end = 0.0, 0.0, time.monotonic() + seconds
    while (start := time.monotonic()) < end or (start < end + AT_MOST and goes_on()):
        before = queued()
        await asyncio.sleep(PAUSE)
        late = time.monotonic() - start - PAUSE
        longest, own = max(longest, late), max(own, late - (queued() - before))
    return longest, own


def ours(folder: Path) -> App[str]:
    """Return kerneltui, playing all parts by itself; it tells for each when it was and the longest delay."""
    from kerneltui.runs.directory import RunDirectory
    from kerneltui.tui.app import KerneltuiApp
    from kerneltui.tui.screens.kernels import KernelsScreen
    from kerneltui.tui.screens.run import RunScreen
    from kerneltui.tui.screens.wizard import WizardScreen
    from kerneltui.tui.widgets.pane import Pane

    data = {"path": "json", "data_files": str(demo.data_path("sft"))}
    config = {"model_name_or_path": str(demo.model_path()), "datasets": [data], "use_cpu": True}
    plan = Plan(trainer="sft", cwd=str(folder), config=json.dumps(config))

    class Playing(KerneltuiApp):
        CSS_PATH = str(Path(kerneltui.tui.__file__).with_name("app.tcss"))

        def on_mount(self) -> None:
            self.run_worker(self.play())

        async def play(self) -> None:
            told = {}
            await asyncio.sleep(OPENING)
            wizard, kernels = WizardScreen(plan, at=3), KernelsScreen()
            live = RunScreen(RunDirectory(folder / "runs" / "calm-otter"))
            waits: dict[str, tuple[Screen[Any], Callable[[], bool]]] = {
                "wizard": (wizard, lambda: "Recommended" not in str(wizard.query_one("#kernel-why", Static).content)),
                "kernels": (kernels, lambda: "…" in kernels.query_one("#list", Pane).title_text),
                "live": (live, lambda: False),
            }
            for part, (screen, goes_on) in waits.items():
                self.push_screen(screen)
                await asyncio.sleep(OPENING)
                start = time.monotonic()
                delays = await delay(PARTS[part], goes_on)
                told[part] = (start, time.monotonic(), *delays)
            (folder / "ours.json").write_text(json.dumps(told), encoding="utf-8")
            self.exit()

    return Playing(Path(sys.executable), folder / "runs")


@contextlib.contextmanager
def on_a_pty(arm: str, folder: Path) -> Iterator[int]:
    """Run an arm of this program on a new pty, whose output is thrown away; kill it at the end. Gives its id."""
    child, terminal = pty.fork()
    if child == 0:
        os.environ.update(TERM="xterm-256color", COLORTERM="truecolor")
        os.execv(sys.executable, [sys.executable, "-m", "tests.benchmarks.longest_stall", arm, str(folder)])
    set_size(terminal)

    def drain() -> None:
        with contextlib.suppress(OSError):
            while os.read(terminal, 1 << 16):
                pass

    threading.Thread(target=drain, daemon=True).start()
    try:
        yield child
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, 9)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(child, 0)
        os.close(terminal)


def grow(run: FakeRun, over: threading.Event) -> None:
    """Let a run's log grow, and its metrics, until `over` is set."""
    step = 0
    with run.run.output(1).open("a", encoding="utf-8") as log:
        while not over.wait(1 / LINES):
            step += 1
            print(
                f"step {step}: {{'loss': {4 / step:.4f}, 'learning_rate': 2e-05, 'epoch': 0.1}}", file=log, flush=True
            )
            if step % 10 == 0:
                run.progress(step)
                run.log(step, loss=4 / step, grad_norm=1.0, learning_rate=2e-5, entropy=2.0, num_tokens=step * 1000)


def one_round(hub: LoopbackHub) -> dict[str, tuple[float, ...]]:
    """Return for each part the longest delays (see `delay`) of kerneltui and of the empty app, in seconds."""
    with tempfile.TemporaryDirectory() as name:
        folder, over = Path(name), threading.Event()
        run = FakeRun(folder / "runs")
        run.begin()
        writer = threading.Thread(target=grow, args=(run, over))
        writer.start()
        try:
            with on_a_pty("empty", folder), on_a_pty("ours", folder) as child:
                os.waitpid(child, 0)
        finally:
            over.set()
            writer.join()
        parts = json.loads((folder / "ours.json").read_text())
        idle = [tuple(map(float, line.split())) for line in (folder / "empty.txt").read_text().splitlines()]
    return {
        part: (*delays, *(max(it[kind] for it in idle if start <= it[0] <= end) for kind in (1, 2)))
        for part, (start, end, *delays) in parts.items()
    }


def main() -> None:
    """Print each round and the ratio of the medians."""
    if len(sys.argv) == 3:
        app = Empty(Path(sys.argv[2]) / "empty.txt") if sys.argv[1] == "empty" else ours(Path(sys.argv[2]))
        app.run()
        return
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    found: dict[str, list[tuple[float, ...]]] = {part: [] for part in PARTS}
    with tempfile.TemporaryDirectory() as name, LoopbackHub(Path(name)) as hub:
        os.environ.update({key: value for key, value in hub.environment().items() if value})
        hub.fail("/", delay=5.0)
        for number in range(rounds):
            for part, delays in one_round(hub).items():
                found[part].append(delays)
                print(f"round {number + 1}, {part}: {_words(delays)}", flush=True)
    for part, rounds_of in found.items():
        a, own_a, b, own_b = medians = [statistics.median(values) for values in zip(*rounds_of, strict=True)]
        print(
            f"{part}: kerneltui / empty Textual app = {a / b:.2f}, without waiting for a processor {own_a / own_b:.2f}"
        )
        print(f"  medians of {rounds}: {_words(medians)}")


def _words(delays: Sequence[float]) -> str:
    a, own_a, b, own_b = (1000 * value for value in delays)
    return f"{a:.0f} ms, empty {b:.0f} ms; not waiting for a processor {own_a:.1f} ms, empty {own_b:.1f} ms"


if __name__ == "__main__":
    main()
