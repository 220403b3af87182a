"""Whether a plan fits its card, and what would."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from kerneltui.advice.memory.estimate import CONTEXT, Estimate, Part, estimate
from kerneltui.advice.memory.rough import free_memory
from kerneltui.advice.memory.workload import ONLINE, Workload, optimizer_bytes, workload_of
from kerneltui.advice.situation import Situation
from kerneltui.records import Record

_MOST_ROWS, _MOST_TOKENS = 1024, 1 << 20
_STEP = 128  # lengths are told in steps of so many tokens


class Memory(Record):
    """What a plan takes of each card, beside what there is; bytes, None where not told.

    `free` and `total` are those of the plan's fullest card. `largest_batch` is the largest per-device batch that surely
    fits at the plan's length, `longest` the longest row within the model's context that does at its batch; 0 where not
    even the smallest does.
    """

    estimate: Estimate
    free: int | None = None
    total: int | None = None
    largest_batch: int | None = None
    longest: int | None = None

    @property
    def fits(self) -> bool | None:
        """Whether it surely fits into what is free, or surely not; None in between, and where that is not known."""
        if self.free is None or self.estimate.low <= self.free < self.estimate.high:
            return None
        return self.estimate.high <= self.free


def memory_of(situation: Situation) -> Memory | None:
    """Return what the plan takes of a card; None where its model was not counted, or it trains on the CPU."""
    if not situation.on_gpu or situation.memory is None or situation.model is None:
        return None
    work = workload_of(situation)
    free = free_memory(situation)
    totals = [gpu.memory_total for gpu in situation.gpus if gpu.memory_total is not None]
    total = min(totals, default=None)
    found = estimate_of(situation, work)
    if situation.measured:
        found = replace_by_measurement(found, *situation.measured)
    batch, longest = _largest(situation, work, free)
    return Memory(estimate=found, free=free, total=total, largest_batch=batch, longest=longest)


def estimate_of(situation: Situation, work: Workload) -> Estimate:
    """Return the estimate of a workload on the situation's model and cards."""
    assert situation.memory and situation.model
    found = estimate(work, situation.memory, situation.model, teacher=situation.others)
    totals = [gpu.memory_total for gpu in situation.gpus if gpu.memory_total is not None]
    if work.vllm_share and totals:
        share = int(work.vllm_share * min(totals))
        parts = (*found.parts, Part(name="vLLM", size=share, how=f"{work.vllm_share:.0%} of the card"))
        found = msgspec.structs.replace(
            found, peak=found.peak + share, low=found.low + share, high=found.high + share, parts=parts
        )
    return found


def roomy_batch(situation: Situation, *, half: bool, lora: bool, length: int) -> tuple[int, int] | None:
    """Return the largest batch of 8, 4, 2 and 1 that surely fits, 1 where none does, and what it takes at most.

    `half`, `lora` and `length` (but for trainers that write) are what the plan would be set to. None where the model
    was not counted or the card does not tell what is free.
    """
    free = free_memory(situation)
    if free is None or situation.memory is None or situation.model is None or not situation.memory.counts:
        return None
    work = workload_of(situation)
    width = 2 if half else 4
    work = msgspec.structs.replace(
        work,
        width=width,
        lora=lora,
        length=work.length if work.trainer in ONLINE else length,
        references=0 if lora else work.references,
        optimizer=optimizer_bytes(work.optimizer_name, 4 if lora else width),
    )
    before = max(1, int(situation.settings.get("per_device_train_batch_size") or 1))
    found = 0
    for batch in (8, 4, 2, 1):
        changed = msgspec.structs.replace(
            work, rows=work.rows * batch // before, writing=work.writing * batch // before
        )
        found = estimate_of(situation, changed).high
        if found <= free:
            return batch, found
    return 1, found


def replace_by_measurement(found: Estimate, peak: int, reserved: int) -> Estimate:
    """Return an estimate whose figures are those of a measured step; its parts stay as they were estimated."""
    return msgspec.structs.replace(found, peak=peak, low=peak + CONTEXT[0], high=reserved + CONTEXT[1], measured=True)


def _largest(situation: Situation, work: Workload, free: int | None) -> tuple[int | None, int | None]:
    if free is None:
        return None, None
    pairs = 2 if work.trainer in ("dpo", "reward") else 1
    passes = work.writing // work.rows if work.writing else 0

    def rows_fit(rows: int) -> bool:
        changed = msgspec.structs.replace(work, rows=rows * pairs, writing=rows * passes)
        return estimate_of(situation, changed).high <= free

    def length_fits(steps: int) -> bool:
        length = steps * _STEP
        answer = max(1, length - work.prompt) if work.trainer in ONLINE else 0
        return estimate_of(situation, msgspec.structs.replace(work, length=length, answer=answer)).high <= free

    limit = situation.model.context if situation.model and situation.model.context else _MOST_TOKENS
    return _most(rows_fit, _MOST_ROWS), _most(length_fits, limit // _STEP) * _STEP


def _most(fits: Callable[[int], bool], limit: int) -> int:
    """Return the largest number up to `limit` that fits, 0 where none does; what is larger fits no better."""
    low, high = 0, limit + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
