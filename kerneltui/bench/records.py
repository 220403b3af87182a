"""What is compared, and what was measured."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any, Literal

from kerneltui.facts.proof import Trial
from kerneltui.plan.plan import Plan
from kerneltui.records import Document, Record

LayerKernels = Literal["none", "liger", "hub"]
"""What computes the other layers: the model's own code, Liger's kernels, or the Hub's layer kernels."""


class Contender(Record):
    """One way to train that is compared with others at each length; `attention` as in `attn_implementation`."""

    attention: str
    layer_kernels: LayerKernels = "none"
    packing: bool = False

    @property
    def label(self) -> str:
        """Its name in a table."""
        extras = [{"none": "", "liger": "Liger", "hub": "Hub layers"}[self.layer_kernels], "packed" * self.packing]
        return " + ".join([self.attention, *filter(None, extras)])


class Point(Record):
    """What one process measures: a contender at a length in tokens, in which of the rounds (from 1)."""

    contender: Contender
    length: int
    round: int = 1


class Comparison(Record):
    """What is compared, all of it: each contender at each length, `rounds` times.

    `plan` is what they have in common; its model gives the configuration, and weights and rows are random. `layers`
    leaves the model only its first ones. Of each process `warmup` steps are not counted and `steps` are.
    """

    plan: Plan
    contenders: tuple[Contender, ...]
    lengths: tuple[int, ...]
    steps: int = 10
    warmup: int = 3
    rounds: int = 1
    layers: int | None = None

    def points(self) -> Iterator[Point]:
        """Give all points, contenders side by side, so that a clock that drifts hits all alike."""
        for round_ in range(1, self.rounds + 1):
            for length in self.lengths:
                for contender in self.contenders:
                    yield Point(contender=contender, length=length, round=round_)


class Benchmark(Document):
    """`benchmark.json`: a comparison, and the machine and packages that it was made with."""

    name: str
    time: str
    kerneltui: str
    comparison: Comparison
    model: str
    device: str
    driver: str | None = None
    packages: dict[str, str] = {}


class Measured(Trial, frozen=True, kw_only=True):
    """A line of `points.jsonl`: what one process measured.

    `steps` are in milliseconds, `tokens` those of a step; `peak` and `reserved` in bytes, None without a GPU. `ready`
    is how many seconds loading the kernel took, a download among it. `flops` are those of a step without recomputation,
    `product_flops` what a large matrix product reached a second on this card. `sample` are hidden states of the first
    forward pass, `loss` and `grad_norm` those of the first steps. `throttle` says what lowered the clocks meanwhile.
    """

    point: Point
    steps: tuple[float, ...] = ()
    tokens: float | None = None
    peak: int | None = None
    reserved: int | None = None
    ready: float | None = None
    attention: str | None = None
    kernels: tuple[dict[str, Any], ...] = ()
    loss: float | None = None
    grad_norm: float | None = None
    sample: tuple[float, ...] = ()
    flops: float | None = None
    product_flops: float | None = None
    throttle: tuple[str, ...] = ()

    @property
    def median(self) -> float | None:
        """The median of the steps in milliseconds, None where none was made."""
        return statistics.median(self.steps) if self.steps else None
