"""What a benchmark tells: each contender at each length, who is first, and who computed something else."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kerneltui.bench.records import Comparison, Contender, Measured, Point
from kerneltui.records import Record

TOLERANCE = 0.1
"""How far the hidden states of a first forward pass, in relative norm, and the first gradient norm may be from those
of the reference. Rounding in bfloat16 moves them by 0.02 (sdpa, eager, flex_attention and FlashAttention-2 on an H200,
six layers of Qwen3-8B, 2026-12-01); an attention that looks at the wrong tokens moves them by about their own size."""

_REFERENCES = ("sdpa", "eager")


class Cell(Record):
    """One contender at one length, of all rounds.

    Steps in milliseconds, `spread` as a share of the median: half of what lies between the 10th and the 90th
    percentile; memory in bytes; `tokens` a second; `utilization` the share of what a large matrix product reaches on
    this card. `difference` is how far it is from the reference (see `TOLERANCE`). `builds` names the Hub kernels that
    it really loaded, by commit and variant. `reason` says why there is no figure, or why it is not ranked.
    """

    contender: Contender
    length: int
    median: float | None = None
    spread: float | None = None
    peak: int | None = None
    tokens: float | None = None
    utilization: float | None = None
    ready: float | None = None
    loss: float | None = None
    difference: float | None = None
    throttle: tuple[str, ...] = ()
    builds: tuple[str, ...] = ()
    ranked: bool = False
    reason: str | None = None


class Summary(Record):
    """All cells of a benchmark by contender and length; `first` has the fastest contender at each length."""

    contenders: tuple[Contender, ...]
    lengths: tuple[int, ...]
    cells: tuple[Cell, ...]
    first: dict[int, Contender] = {}

    def cell(self, contender: Contender, length: int) -> Cell | None:
        """Return the cell of a contender at a length, None where nothing was measured yet."""
        return next((it for it in self.cells if it.contender == contender and it.length == length), None)

    def ranking(self, length: int) -> list[Cell]:
        """Return the ranked cells of a length, fastest first."""
        ranked = [it for it in self.cells if it.length == length and it.ranked and it.median is not None]
        return sorted(ranked, key=lambda cell: cell.median or math.inf)


def summarise(comparison: Comparison, measured: Mapping[Point, Measured]) -> Summary:
    """Return the summary of what was measured so far."""
    cells = []
    for length in comparison.lengths:
        reference = _reference(comparison, length, measured)
        found = [(contender, _of(contender, length, measured)) for contender in comparison.contenders]
        cells += [_cell(contender, length, those, reference) for contender, those in found if those]
    summary = Summary(contenders=comparison.contenders, lengths=comparison.lengths, cells=tuple(cells))
    first = {length: ranking[0].contender for length in comparison.lengths if (ranking := summary.ranking(length))}
    return msgspec.structs.replace(summary, first=first)


def _of(contender: Contender, length: int, measured: Mapping[Point, Measured]) -> list[Measured]:
    return [it for point, it in measured.items() if point.contender == contender and point.length == length]


def _reference(comparison: Comparison, length: int, measured: Mapping[Point, Measured]) -> dict[bool, Measured]:
    """Return what the others are set beside, with packing and without: PyTorch's own attention on the model's own code.

    Where that is not compared, the one nearest to it.
    """
    found: dict[bool, Measured] = {}
    for name in _REFERENCES:
        for contender in sorted(comparison.contenders, key=lambda it: it.layer_kernels != "none"):
            for one in _of(contender, length, measured) if contender.attention == name else ():
                if one.ended == "ok" and one.sample:
                    found.setdefault(contender.packing, one)
    return found


def _cell(contender: Contender, length: int, found: list[Measured], reference: dict[bool, Measured]) -> Cell:
    good = [one for one in found if one.ended == "ok" and one.steps]
    if not good:
        bad = found[-1]
        reason = "out of memory" if bad.ended == "out_of_memory" else bad.ending or bad.ended
        return Cell(contender=contender, length=length, reason=reason)
    steps = [step for one in good for step in one.steps]
    median = statistics.median(steps)
    tokens, flops, product = good[0].tokens, good[0].flops, good[0].product_flops
    difference = _difference(good[0], reference.get(contender.packing))
    wrong = difference is not None and not difference <= TOLERANCE
    return Cell(
        contender=contender,
        length=length,
        median=median,
        spread=_spread(steps) / median,
        peak=max((one.peak for one in good if one.peak is not None), default=None),
        tokens=tokens / median * 1000 if tokens else None,
        utilization=flops / median * 1000 / product if flops and product else None,
        ready=good[0].ready,
        loss=good[0].loss,
        difference=difference,
        throttle=tuple(sorted({reason for one in good for reason in one.throttle})),
        builds=tuple(sorted({_build(kernel) for one in good for kernel in one.kernels})),
        ranked=not wrong,
        reason="it computes something else than the reference" if wrong else None,
    )


def _build(kernel: Mapping[str, Any]) -> str:
    name = kernel.get("repository") or kernel.get("name")
    return f"{name} commit {kernel.get('commit')} build {kernel.get('variant')}"


def _spread(steps: Sequence[float]) -> float:
    if len(steps) < 2:
        return 0.0
    tenths = statistics.quantiles(steps, n=10, method="inclusive")
    return (tenths[-1] - tenths[0]) / 2


def _difference(one: Measured, reference: Measured | None) -> float | None:
    """Return how far what was computed is from the reference; infinite where it is not finite, None without one."""
    if reference is None or len(one.sample) != len(reference.sample):
        return None
    if not all(map(math.isfinite, one.sample)) or (one.loss is None) != (reference.loss is None):
        return math.inf
    norm = math.sqrt(sum(value**2 for value in reference.sample))
    apart = math.sqrt(sum((a - b) ** 2 for a, b in zip(one.sample, reference.sample, strict=True)))
    forward = apart / norm if norm else 0.0
    if not reference.grad_norm or one.grad_norm is None:
        return forward
    return max(forward, abs(one.grad_norm - reference.grad_norm) / reference.grad_norm)
