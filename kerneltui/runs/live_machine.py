"""A machine as it is now, for the screens: its GPUs and memory, sampled again and again."""

from __future__ import annotations

from pathlib import Path

from kerneltui.facts.gpu import GpuSample
from kerneltui.facts.server import Server
from kerneltui.runs.machine import GpuReader, Machine
from kerneltui.runs.samples import HostView, MachineView, Samples


class LiveMachine:
    """Samples this machine; `poll` may be called as often as wanted. Not for several threads at once."""

    def __init__(self, server: Server, folder: Path, gpus: GpuReader | None = None) -> None:
        self._samples = Samples(server.gpus, None)
        self._machine = Machine(folder, gpus)

    def __enter__(self) -> LiveMachine:
        return self

    def __exit__(self, *error: object) -> None:
        self._machine.__exit__(*error)

    def poll(self) -> MachineView | None:
        """Return the machine with its last minutes when a new sample is due, else None."""
        try:
            sample = self._machine.sample()
        except OSError:  # a disk that does not answer; the next sample may
            return None
        if sample is None:
            return None
        host = HostView(memory_used=sample.memory_used, memory_total=sample.memory_total, disk_free=sample.disk_free)
        self._samples.take(sample.gpus, host)
        return MachineView(gpus=self._samples.gpus(), machine=self._samples.host)


def recorded_machine(server: Server) -> MachineView:
    """Return the machine as its report tells of it."""
    samples = Samples(server.gpus, None)
    gpus = [GpuSample(**{name: getattr(gpu, name) for name in GpuSample.__struct_fields__}) for gpu in server.gpus]
    total, free = server.memory_total, server.memory_available
    used = None if total is None or free is None else total - free
    samples.take(gpus, HostView(memory_used=used, memory_total=total))
    return MachineView(gpus=samples.gpus(), machine=samples.host)
