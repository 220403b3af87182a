"""Windows as a run that goes well leaves them; what is wrong is put in by each test."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import Any

import msgspec

from kerneltui.facts.gpu import GpuSample
from kerneltui.runs.health.window import Disk, Log, MachineSample, Pace, Window

NOW = datetime.fromisoformat("2026-12-01T14:00:00+00:00")
GIB = 1 << 30
CARD = GpuSample(
    index=0, uuid="GPU-0", utilization=97, memory_used=70 * GIB, power=640.0, temperature=64, throttle=("power cap",),
    ecc_errors=0,
)  # fmt: skip


def logs(*values: float, name: str = "loss") -> tuple[Log, ...]:
    """Return a log line a value, ten seconds and ten steps apart, the last one now."""
    count = len(values)
    return tuple(
        Log(NOW - timedelta(seconds=10 * (count - 1 - place)), 10 * (place + 1), {name: value})
        for place, value in enumerate(values)
    )


def falling(count: int = 120) -> list[float]:
    """Return losses as they fall in a good run, with their scatter."""
    return [1.6 + 1.4 * math.exp(-place / 30) + 0.15 * math.sin(1.7 * place) for place in range(count)]


def samples(count: int = 330, card: GpuSample = CARD, **changes: Any) -> tuple[MachineSample, ...]:
    """Return samples of one GPU and the host, two seconds apart; `changes` are the GPU's."""
    card = msgspec.structs.replace(card, **changes)
    return tuple(
        MachineSample(NOW - timedelta(seconds=2 * (count - 1 - place)), (card,), 200 * GIB, 500 * GIB, 40.0)
        for place in range(count)
    )


def healthy(**changes: Any) -> Window:
    """Return the window of a run that goes well."""
    fields: dict[str, Any] = {
        "now": NOW,
        "logs": logs(*falling()),
        "paces": tuple(Pace(NOW - timedelta(seconds=60 - place), place, 1.0) for place in range(60)),
        "samples": samples(),
        "stepping": NOW - timedelta(hours=1),
        "heard": NOW - timedelta(seconds=1),
        "memory_total": 140 * GIB,
        "temperature_limits": {"GPU-0": 87},
        "disk": Disk("/runs", 900 * GIB, 20 * GIB, 40),
        **changes,
    }
    return Window(**fields)
