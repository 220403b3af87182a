"""Measuring points one after the other, each in a fresh process."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from kerneltui.bench.records import Comparison, Measured, Point
from kerneltui.bench.store import Store
from kerneltui.facts.gpu import Nvml
from kerneltui.interpreter import ProgressCallback, Worker
from kerneltui.prove.trial import watch
from kerneltui.records import from_builtins
from kerneltui.text import now

_QUESTION = "bench.point"
# Seconds between two looks at the clocks.
_LOOK = 1.0

OnPoint = Callable[[Measured], None]


class Measuring:
    """Measures what a store lacks of its comparison. `cancel` may be called from any thread; what is there stays.

    `environment` are the variables of the processes, `limit` the seconds that one may take.
    """

    def __init__(
        self, store: Store, comparison: Comparison, python: Path, environment: Mapping[str, str], *, limit: float = 900
    ) -> None:
        self._store = store
        self._comparison = comparison
        self._python = python
        self._environment = environment
        self._limit = limit
        self._cancelled = threading.Event()
        self._worker: Worker | None = None

    def cancel(self) -> None:
        """End the process that measures, and begin no other."""
        self._cancelled.set()
        if worker := self._worker:
            worker.kill()

    def run(self, on_point: OnPoint | None = None, on_progress: ProgressCallback | None = None) -> None:
        """Measure all points that the store does not have; `on_point` gets each, `on_progress` words."""
        there, points = self._store.measured(), list(self._comparison.points())
        for number, point in enumerate(points, 1):
            if self._cancelled.is_set():
                return
            if point in there:
                continue
            tell = _telling(on_progress, f"{number} of {len(points)}: {point.contender.label} at {point.length}")
            found = _skipped(point, there) or self._measure(point, tell)
            if self._cancelled.is_set():  # it did not end by itself
                return
            there[point] = found
            self._store.add(found)
            if on_point:
                on_point(found)

    def _measure(self, point: Point, tell: ProgressCallback) -> Measured:
        plan, comparison = self._comparison.plan, self._comparison
        begun, began, answer = now(), time.monotonic(), {}

        def ask() -> None:
            answer.update(
                worker.ask(
                    _QUESTION,
                    timeout=self._limit,
                    on_progress=tell,
                    trainer=plan.trainer,
                    arguments=arguments_of(comparison, point),
                    warmup=comparison.warmup,
                    steps=comparison.steps,
                    layers=comparison.layers,
                )
            )

        cwd = Path(plan.cwd)
        with (
            Clocks(self._environment) as clocks,
            Worker(self._python, "bench", environment=self._environment, cwd=cwd if cwd.is_dir() else None) as worker,
        ):
            self._worker = worker
            ended, ending, tail = watch(ask, worker)
        told = _told(answer, point) if ended == "ok" else {}
        seconds = round(time.monotonic() - began, 1)
        about = {"time": begun, "seconds": seconds, "ended": ended, "ending": ending, "tail": tail}
        return from_builtins(
            {**about, **told, "point": msgspec.to_builtins(point), "throttle": sorted(clocks.reasons)},
            Measured,
            "a measured point",
        )


def arguments_of(comparison: Comparison, point: Point) -> list[str]:
    """Return the arguments of the trainer's script for a point: those of the plan, then what this point sets."""
    plan, contender = comparison.plan, point.contender
    config = ["--config", str(Path(plan.cwd, plan.config_path))] if plan.config_path else []
    values = {
        "dataset_name": "random",
        "output_dir": "kerneltui-benchmark",
        "attn_implementation": contender.attention,
        "max_length": point.length,
        "use_liger_kernel": contender.layer_kernels == "liger",
    }
    if contender.layer_kernels == "hub":
        values["model_init_kwargs"] = '{"use_kernels": true}'
    if plan.trainer == "sft":
        values["packing"] = contender.packing
    return [*config, *plan.flags, *(word for name, value in values.items() for word in (f"--{name}", str(value)))]


class Clocks:
    """Notes in `reasons` what lowers the clocks of the GPUs that can be seen, from `__enter__` to `__exit__`."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.reasons: set[str] = set()
        self._hidden = environment.get("CUDA_VISIBLE_DEVICES") == ""
        self._ended = threading.Event()

    def __enter__(self) -> Clocks:
        if not self._hidden:
            threading.Thread(target=self._look, daemon=True, name="clocks").start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()

    def _look(self) -> None:
        with Nvml() as nvml:
            while not self._ended.wait(_LOOK):
                for sample in nvml.sample():
                    self.reasons.update(sample.throttle or ())


def _skipped(point: Point, there: Mapping[Point, Measured]) -> Measured | None:
    """Return the record of a point that is not tried, since a shorter one had no memory; None for one to be tried."""
    for other, measured in there.items():
        shorter = other.contender == point.contender and other.length < point.length
        if shorter and measured.ended == "out_of_memory":
            why = f"out of memory at {other.length} already"
            return Measured(point=point, time=now(), seconds=0, ended="out_of_memory", ending=why)
    return None


def _told(answer: dict[str, Any], point: Point) -> dict[str, Any]:
    """Return a worker's answer as fields of `Measured`."""
    found = {name: answer.get(name) for name in ("tokens", "peak", "reserved", "ready", "attention", "product_flops")}
    losses = {name: _finite(answer.get(name)) for name in ("loss", "grad_norm")}
    per_token, attention = answer.get("flops_per_token"), answer.get("attention_flops")
    flops = None
    if per_token is not None and attention is not None and found["tokens"]:
        flops = found["tokens"] * (per_token + attention * point.length)
    rest = {name: answer.get(name) or () for name in ("steps", "kernels", "sample")}
    return {**found, **losses, **rest, "flops": flops}


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _telling(on_progress: ProgressCallback | None, what: str) -> ProgressCallback:
    return lambda words: on_progress(f"{what}: {words}") if on_progress else None
