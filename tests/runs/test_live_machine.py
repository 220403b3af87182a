"""This machine, sampled for the screens."""

from __future__ import annotations

from pathlib import Path

from kerneltui.facts.gpu import GpuSample
from kerneltui.runs.live_machine import LiveMachine, recorded_machine
from tests.advice.situations import H200, make_server
from tests.waiting import until


class Reader:
    """GPUs whose use rises from one sample to the next."""

    def __init__(self) -> None:
        self.use = 0
        self.closed = False

    def sample(self) -> tuple[GpuSample, ...]:
        self.use += 10
        return (GpuSample(index=0, utilization=self.use, memory_used=1 << 30),)

    def close(self) -> None:
        self.closed = True


def test_a_sample_has_the_name_of_the_card_and_the_host(tmp_path: Path) -> None:
    reader = Reader()
    with LiveMachine(make_server(H200), tmp_path, reader) as machine:
        view = until(machine.poll)
    assert view
    assert [(gpu.name, gpu.use, gpu.memory) for gpu in view.gpus] == [("H200", 10, 1 << 30)]
    assert view.machine.memory_total and view.machine.disk_free
    until(lambda: reader.closed)


def test_a_recorded_machine_shows_what_its_report_says() -> None:
    view = recorded_machine(make_server(H200))
    assert [gpu.name for gpu in view.gpus] == ["H200"]
    assert view.gpus[0].use_history == (view.gpus[0].use,)
