"""How long the screen is deaf at most: `python -m tests.benchmarks.longest_stall [ROUNDS]`.

Each round starts kerneltui and an empty Textual app side by side, each on a pty of 120×40, and asks both event loops
every few milliseconds to come back. While kerneltui's wizard waits for an asker that imports TRL and for a Hub that
takes five seconds for every answer, then while the list of kernels waits for the same Hub, and then while its live
pane follows a log that grows by 50 lines a second, the longest delays of both are taken. Both have the same machine at
the same time, so what others do there weighs on both.
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
from collections.abc import Iterator
from pathlib import Path

from textual.app import App, ComposeResult
from textual.widgets import Footer

import kerneltui.tui
from kerneltui import demo
from kerneltui.plan.plan import Plan
from tests.benchmarks.first_frame import set_size
from tests.hub.server import LoopbackHub
from tests.tui.fake_runs import FakeRun

PAUSE = 0.002
LINES = 50
# How long each part is watched, in seconds; and how long a screen that was just opened is left alone before.
PARTS = {"wizard": 25.0, "kernels": 15.0, "live": 10.0}
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
                print(time.monotonic(), await delay(0.25), file=file, flush=True)


async def delay(seconds: float) -> float:
    """Return how late the event loop came back at most within so many seconds, in seconds."""
    longest, end = 0.0, time.monotonic() + seconds
    while (start := time.monotonic()) < end:
        await asyncio.sleep(PAUSE)
        longest = max(longest, time.monotonic() - start - PAUSE)
    return longest


def ours(folder: Path) -> App[str]:
    """Return kerneltui, playing all parts by itself; it tells for each when it was and the longest delay."""
    from kerneltui.runs.directory import RunDirectory
    from kerneltui.tui.app import KerneltuiApp
    from kerneltui.tui.screens.kernels import KernelsScreen
    from kerneltui.tui.screens.run import RunScreen
    from kerneltui.tui.screens.wizard import WizardScreen

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
            for part, screen in (
                ("wizard", WizardScreen(plan, at=3)),
                ("kernels", KernelsScreen()),
                ("live", RunScreen(RunDirectory(folder / "runs" / "calm-otter"))),
            ):
                self.push_screen(screen)
                await asyncio.sleep(OPENING)
                start = time.monotonic()
                longest = await delay(PARTS[part])
                told[part] = (start, time.monotonic(), longest)
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


def one_round(hub: LoopbackHub) -> dict[str, tuple[float, float]]:
    """Return for each part the longest delay of kerneltui and that of the empty app, in seconds."""
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
        part: (longest, max(late for when, late in idle if start <= when <= end))
        for part, (start, end, longest) in parts.items()
    }


def main() -> None:
    """Print each round and the ratio of the medians."""
    if len(sys.argv) == 3:
        app = Empty(Path(sys.argv[2]) / "empty.txt") if sys.argv[1] == "empty" else ours(Path(sys.argv[2]))
        app.run()
        return
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    found: dict[str, list[tuple[float, float]]] = {part: [] for part in PARTS}
    with tempfile.TemporaryDirectory() as name, LoopbackHub(Path(name)) as hub:
        os.environ.update({key: value for key, value in hub.environment().items() if value})
        hub.fail("/", delay=5.0)
        for number in range(rounds):
            for part, pair in one_round(hub).items():
                found[part].append(pair)
            told = [f"{part} {a * 1000:.0f} ms, empty {b * 1000:.0f} ms" for part in PARTS for a, b in found[part][-1:]]
            print(f"round {number + 1}: {';  '.join(told)}", flush=True)
    for part, pairs in found.items():
        a, b = (statistics.median(pair[arm] for pair in pairs) for arm in (0, 1))
        medians = f"medians of {rounds}: {a * 1000:.0f} and {b * 1000:.0f} ms"
        print(f"{part}: kerneltui / empty Textual app = {a / b:.2f} ({medians})")


if __name__ == "__main__":
    main()
