"""Benchmarks made by hand, for tests."""

from __future__ import annotations

from typing import Any

from kerneltui.bench.records import Benchmark, Comparison, Contender, Measured, Point
from kerneltui.plan.plan import Plan

SDPA = Contender(attention="sdpa")
EAGER = Contender(attention="eager")
KERNEL = Contender(attention="kernels-community/flash-attn2")

SAMPLE = (1.0, -2.0, 0.5, 3.0)


def comparison(*contenders: Contender, lengths: tuple[int, ...] = (64, 128), **changes: Any) -> Comparison:
    plan = Plan(trainer="sft", cwd="/")
    return Comparison(plan=plan, contenders=contenders or (SDPA, KERNEL), lengths=lengths, **changes)


def benchmark(made: Comparison) -> Benchmark:
    return Benchmark(
        name="quick",
        time="2026-12-01T12:00:00+00:00",
        kerneltui="0.1.0",
        comparison=made,
        model="Qwen3-0.6B (random weights)",
        device="NVIDIA H200",
        driver="580.159.04",
        packages={"torch": "2.11.0", "trl": "1.16.0"},
    )


def measured(contender: Contender, length: int, *steps: float, round: int = 1, **values: Any) -> Measured:
    point = Point(contender=contender, length=length, round=round)
    values = {"sample": SAMPLE, "loss": 2.0, "grad_norm": 1.0, "tokens": float(length), **values}
    return Measured(point=point, time="2026-12-01T12:00:00+00:00", seconds=9.0, steps=steps, **values)


def failed(contender: Contender, length: int, ended: Any, ending: str | None = None) -> Measured:
    point = Point(contender=contender, length=length)
    return Measured(point=point, time="2026-12-01T12:00:00+00:00", seconds=9.0, ended=ended, ending=ending)


def by_point(*found: Measured) -> dict[Point, Measured]:
    return {one.point: one for one in found}
