"""What the machine did while a run ran: the last samples of each GPU, and the host's memory and disk."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kerneltui.facts.gpu import GpuSample
from kerneltui.facts.server import Gpu
from kerneltui.text import plain_line

# How many samples are kept: at one every 2 s, five minutes.
HISTORY = 150

_FIELDS = GpuSample.__struct_fields__
_HOST = ("memory_used", "memory_total", "disk_free")

History = tuple[float | None, ...]


@dataclass(frozen=True, kw_only=True)
class GpuView:
    """One GPU of the run: what it is, its last sample, and the samples before it, the oldest first.

    `use` in percent, memory in bytes, power in watts, temperature in degrees Celsius; None where NVML does not tell,
    with the reason in `unavailable`. `throttle` says why the clocks are lowered; empty when they are not.
    """

    index: int | None
    name: str
    memory_total: int | None = None
    power_limit: float | None = None
    use: int | None = None
    memory: int | None = None
    power: float | None = None
    temperature: int | None = None
    throttle: tuple[str, ...] | None = None
    use_history: History = ()
    memory_history: History = ()
    power_history: History = ()
    temperature_history: History = ()
    unavailable: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class HostView:
    """The host's memory and the free space of the run's disk, in bytes; None where not sampled."""

    memory_used: int | None = None
    memory_total: int | None = None
    disk_free: int | None = None


@dataclass(frozen=True, kw_only=True)
class MachineView:
    """The GPUs and the host at one moment, with the GPUs' last minutes."""

    gpus: tuple[GpuView, ...] = ()
    machine: HostView = field(default_factory=HostView)


class Samples:
    """Gathers the lines of `system.jsonl`. `gpus` are those of the server's report, `chosen` the run's own of them."""

    def __init__(self, gpus: tuple[Gpu, ...], chosen: tuple[int, ...] | None) -> None:
        self._known = gpus
        self._chosen = chosen
        self._cards: dict[str, deque[GpuSample]] = {}
        self.host = HostView()

    def add(self, line: dict[str, Any]) -> None:
        """Take in one line; what does not fit is left out."""
        gpus = line.get("gpus")
        found = []
        for raw in gpus if isinstance(gpus, list) else ():
            # A later kerneltui may record more than this one knows.
            with contextlib.suppress(msgspec.ValidationError, TypeError):
                found.append(msgspec.convert({name: raw[name] for name in _FIELDS if name in raw}, GpuSample))
        self.take(found, HostView(**{name: _size(line.get(name)) for name in _HOST}))

    def take(self, gpus: Iterable[GpuSample], host: HostView) -> None:
        """Take in one sample."""
        self.host = host
        for sample in gpus:
            if self._chosen is None or sample.index is None or sample.index in self._chosen:
                key = sample.uuid or str(sample.index)
                self._cards.setdefault(key, deque(maxlen=HISTORY)).append(sample)

    def gpus(self) -> tuple[GpuView, ...]:
        """Return the run's GPUs in PCI order."""
        views = [self._view(list(samples)) for samples in self._cards.values()]
        return tuple(sorted(views, key=lambda view: (view.index is None, view.index or 0)))

    def _view(self, samples: list[GpuSample]) -> GpuView:
        last = samples[-1]
        known = next((gpu for gpu in self._known if _same(gpu, last)), Gpu())
        return GpuView(
            index=last.index,
            name=plain_line(known.name or "GPU").removeprefix("NVIDIA "),
            memory_total=known.memory_total,
            power_limit=known.power_limit,
            use=last.utilization,
            memory=last.memory_used,
            power=last.power,
            temperature=last.temperature,
            throttle=None if last.throttle is None else tuple(map(plain_line, last.throttle)),
            use_history=tuple(sample.utilization for sample in samples),
            memory_history=tuple(sample.memory_used for sample in samples),
            power_history=tuple(sample.power for sample in samples),
            temperature_history=tuple(sample.temperature for sample in samples),
            unavailable={plain_line(name): plain_line(reason) for name, reason in last.unavailable.items()},
        )


def _same(gpu: Gpu, sample: GpuSample) -> bool:
    return gpu.uuid == sample.uuid if gpu.uuid and sample.uuid else gpu.index == sample.index


def _size(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
