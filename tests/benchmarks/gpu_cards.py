"""What the live GPUs of the doctor screen cost: `python -m tests.benchmarks.gpu_cards [ROUNDS [UPDATES]]`.

Feeds eight cards with new values again and again, and beside it a Textual app of the same size with as many labels as
the cards have values, which gets as many updates. Prints the ratio of the processor time of both, interleaved.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from textual.app import App, ComposeResult
from textual.containers import Grid
from textual.pilot import Pilot
from textual.widgets import Label

from kerneltui.facts.gpu import GpuSample
from kerneltui.facts.server import Server
from kerneltui.records import read_record
from kerneltui.runs.samples import HostView, MachineView, Samples
from kerneltui.tui.app import KerneltuiApp
from kerneltui.tui.screens.doctor import DoctorScreen
from kerneltui.tui.session import Session
from tests.tui.watching import until_shown

SIZE = (120, 40)
SERVER = read_record(Path(__file__).parents[1] / "servers" / "eight-a100-two-busy.json", Server)
# Use, memory, power, temperature.
VALUES = 4


class Labels(App[None]):
    """As many labels as the cards have values."""

    CSS = f"Grid {{ grid-size: {VALUES}; }}"

    def compose(self) -> ComposeResult:
        """Lay out the labels."""
        with Grid():
            for _ in range(VALUES * len(SERVER.gpus)):
                yield Label("0")


async def _labels(updates: int) -> float:
    app = Labels()
    async with app.run_test(size=SIZE) as pilot:
        labels = list(app.query(Label))

        def change(number: int) -> None:
            for at, label in enumerate(labels):
                label.update(f"{(number + at) % 100}")

        return await _cost(pilot, change, updates)


async def _doctor(updates: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        python = Path(sys.executable)
        app = KerneltuiApp(python, Path(folder), session=Session(python, Path(folder), recorded=SERVER))
        async with app.run_test(size=SIZE) as pilot:
            screen = DoctorScreen()
            app.push_screen(screen)
            await until_shown(pilot, "A100-SXM4-80GB")
            samples = Samples(SERVER.gpus, None)

            def change(number: int) -> None:
                samples.take([_sample(at, number) for at in range(len(SERVER.gpus))], HostView())
                screen.machine = MachineView(gpus=samples.gpus(), machine=samples.host)

            return await _cost(pilot, change, updates)


def _sample(at: int, number: int) -> GpuSample:
    value = (number + at) % 100
    return GpuSample(
        index=at, uuid=SERVER.gpus[at].uuid, utilization=value, memory_used=value << 29, power=300.0 + value,
        temperature=30 + value % 50, throttle=(),
    )  # fmt: skip


async def _cost(pilot: Pilot[Any], change: Callable[[int], None], updates: int) -> float:
    """Return the seconds of processor time that so many updates take, each of them drawn."""
    await pilot.pause()
    start = time.process_time()
    for number in range(updates):
        change(number)
        await pilot.pause()
    return time.process_time() - start


def main() -> None:
    """Print each round and the ratio of the medians."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    updates = int(sys.argv[2]) if len(sys.argv) > 2 else 100
    ours, labels = [], []
    for number in range(rounds):
        ours.append(asyncio.run(_doctor(updates)))
        labels.append(asyncio.run(_labels(updates)))
        print(f"round {number + 1}: cards {ours[-1]:.2f} s  labels {labels[-1]:.2f} s", flush=True)
    print(f"cards / labels = {statistics.median(ours) / statistics.median(labels):.2f} ({updates} updates)")


if __name__ == "__main__":
    main()
