"""What the rules see: the last minutes of a run's record, as frozen values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from statistics import median
from typing import Any

from kerneltui.facts.gpu import GpuSample


@dataclass(frozen=True)
class Log:
    """What the trainer logged at a step; values as floats, NaN and the infinities among them."""

    time: datetime
    step: int
    values: Mapping[str, float]


@dataclass(frozen=True)
class Pace:
    """A progress line: how long a step took of late, in seconds."""

    time: datetime
    step: int
    seconds: float


@dataclass(frozen=True)
class MachineSample:
    """The machine at one moment: the run's GPUs; memory in bytes; `cpu` in percent of all cores, None if not told."""

    time: datetime
    gpus: tuple[GpuSample, ...] = ()
    memory_used: int | None = None
    memory_total: int | None = None
    cpu: float | None = None


@dataclass(frozen=True)
class Disk:
    """The disk of the checkpoints: bytes that are free, the size of the last checkpoint, steps until the next one."""

    path: str
    free: int
    checkpoint: int | None = None
    next_in: int | None = None


@dataclass(frozen=True)
class Window:
    """The last of an attempt's record at the moment `now`; the oldest first.

    `stepping` since when it takes steps (None before and after); `heard` when the training process last recorded or
    printed anything; `settings` those of the trainer. `broken_weights` is the step at which weights were no numbers.
    """

    now: datetime
    logs: Sequence[Log] = ()
    paces: Sequence[Pace] = ()
    samples: Sequence[MachineSample] = ()
    stepping: datetime | None = None
    heard: datetime | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    memory_total: int | None = None
    temperature_limits: Mapping[str, int] = field(default_factory=dict)
    disk: Disk | None = None
    broken_weights: tuple[datetime, int] | None = None

    def values(self, name: str) -> list[tuple[Log, float]]:
        """Return the log lines that have a metric, each with its value."""
        return [(log, log.values[name]) for log in self.logs if name in log.values]

    def finite(self, name: str) -> list[float]:
        """Return the finite values of a metric."""
        return [value for _, value in self.values(name) if math.isfinite(value)]

    @property
    def rewarded(self) -> bool:
        """Whether the trainer logs rewards of completions: its loss is then no measure of how it goes."""
        return any(name == "reward" or name.startswith("rewards/") for log in self.logs[-3:] for name in log.values)

    @property
    def step_seconds(self) -> float | None:
        """The usual time of a step, None before the first progress line."""
        return median(pace.seconds for pace in self.paces) if self.paces else None

    def last(self, seconds: float) -> list[MachineSample]:
        """Return the samples of the last seconds; none where they do not reach back so far."""
        found = [sample for sample in self.samples if (self.now - sample.time).total_seconds() <= seconds]
        reach = (self.now - self.samples[0].time).total_seconds() if self.samples else 0.0
        return found if reach >= 0.9 * seconds else []


def by_gpu(samples: Sequence[MachineSample]) -> Iterator[tuple[str, list[GpuSample]]]:
    """Give each GPU of the samples with its own, the oldest first, under a name such as "GPU 0"."""
    found: dict[tuple[int | None, str | None], list[GpuSample]] = {}
    for sample in samples:
        for gpu in sample.gpus:
            found.setdefault((gpu.index, gpu.uuid), []).append(gpu)
    for (index, uuid), cards in found.items():
        yield (f"GPU {index}" if index is not None else f"GPU {uuid}"), cards
