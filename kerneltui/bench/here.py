"""What the benchmarks of this machine tell about the attention of a plan: how its step time is beside sdpa's."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from kerneltui.advice.situation import Situation
from kerneltui.bench.compare import packages_of
from kerneltui.bench.records import Benchmark
from kerneltui.bench.store import stored_benchmarks
from kerneltui.bench.summary import Cell, Summary, summarise
from kerneltui.facts.attention import AttentionChoice
from kerneltui.records import Record

_REFERENCE = "sdpa"


class Made(Record):
    """A benchmark that was made here, with what it tells so far, and the name of its directory."""

    benchmark: Benchmark
    summary: Summary
    name: str


class Beside(Record):
    """One attention beside sdpa in one benchmark; `cell` has why there is no figure, where there is none."""

    benchmark: Benchmark
    cell: Cell
    reference: Cell

    @property
    def share(self) -> float | None:
        """Its step time over that of sdpa; None where it has none that counts."""
        if not self.cell.ranked or self.cell.median is None or not self.reference.median:
            return None
        return self.cell.median / self.reference.median


def made_here() -> tuple[Made, ...]:
    """Return the benchmarks of this machine, the latest first. Reads files; nothing where there are none."""
    return tuple(
        Made(benchmark=made, summary=summarise(made.comparison, store.measured()), name=store.path.name)
        for made, store in stored_benchmarks()
    )


def beside_sdpa(found: Sequence[Made], situation: Situation, choice: AttentionChoice) -> Beside | None:
    """Return what was measured of an attention here that says most of this plan, None where nothing was.

    Only with the plan's kind of card, the packages of its server, and rows packed as it packs them. The plan's own
    model and trainer come first, then its layer kernels, then the nearest length (of a plan without one, the longest),
    then the latest.
    """
    fit = [made for made in found if _fits(made.benchmark, situation)]
    measured = [beside for made in fit for beside in _of(made, _names(choice), situation)]
    return min(measured, key=lambda beside: _distance(beside, situation), default=None)


def _names(choice: AttentionChoice) -> set[str | None]:
    """Return the names by which a benchmark may call it: as it is asked for, and what that loads."""
    loads = {f"{choice.repository}@{choice.revision}", *([] if choice.pinned else [choice.repository])}
    return {choice.asked, *(loads if choice.repository else ())}


def _fits(benchmark: Benchmark, situation: Situation) -> bool:
    cards = {gpu.name or "GPU" for gpu in situation.gpus}
    device = {"the CPU"} if situation.on_gpu is False else cards
    alike = device == {benchmark.device} and benchmark.packages == packages_of(situation.server)
    return alike and not situation.elsewhere


def _of(made: Made, names: set[str | None], situation: Situation) -> Iterator[Beside]:
    packed = bool(situation.settings.get("packing"))
    for cell in made.summary.cells:
        one = cell.contender
        if one.attention not in names or one.packing != packed:
            continue
        for reference in made.summary.cells:
            other = reference.contender
            alike = (other.attention, other.layer_kernels, other.packing) == (_REFERENCE, one.layer_kernels, packed)
            if alike and reference.length == cell.length and reference.median:
                yield Beside(benchmark=made.benchmark, cell=cell, reference=reference)


def _distance(beside: Beside, situation: Situation) -> tuple[bool, bool, bool, float]:
    benchmark, settings, length = beside.benchmark, situation.settings, beside.cell.length
    wanted = settings.get("max_length")
    layers = "liger" if settings.get("use_liger_kernel") else "none"
    return (
        benchmark.model != settings.get("model_name_or_path"),
        benchmark.comparison.plan.trainer != situation.plan.trainer,
        beside.cell.contender.layer_kernels != layers,
        abs(math.log(length / wanted)) if isinstance(wanted, int) and wanted > 0 else -length,
    )
