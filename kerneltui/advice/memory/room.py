"""The rule about room: a plan that takes more of a card than there is."""

from __future__ import annotations

from typing import Any

import msgspec

from kerneltui.advice.finding import Finding, Fix
from kerneltui.advice.memory.fits import Memory, estimate_of, memory_of
from kerneltui.advice.memory.rough import GIB
from kerneltui.advice.memory.workload import Workload, optimizer_bytes, workload_of
from kerneltui.advice.situation import Situation


def room(situation: Situation) -> list[Finding]:
    """Return a warning where a plan surely takes more than is free, a note where that is not sure."""
    memory = memory_of(situation)
    if memory is None or memory.free is None or memory.fits:
        return []
    low, high, free = (gib(size) for size in (memory.estimate.low, memory.estimate.high, memory.free))
    measured = memory.estimate.measured
    takes = f"{gib(memory.estimate.peak)} GiB, as measured" if measured else f"{low} to {high} GiB"
    if memory.fits is None:
        title = f"Training may not fit: it takes {takes}, and {free} GiB are free"
        return [_finding(situation, memory, "memory.tight", "note", title)]
    title = f"Training will not fit: it takes {takes}, and {free} GiB are free"
    return [_finding(situation, memory, "memory.too_large", "warn", title)]


RULES = (room,)


def gib(size: int) -> str:
    """Return bytes in GiB, with a digit behind the point below 10."""
    return f"{size / GIB:.1f}" if size < 10 * GIB else f"{size / GIB:.0f}"


def _finding(situation: Situation, memory: Memory, name: str, severity: Any, title: str) -> Finding:
    found = memory.estimate
    parts = sorted(found.parts, key=lambda part: -part.size)[:4]
    why = f"At its highest, in {found.at}: " + ", ".join(f"{part.name} {gib(part.size)}" for part in parts) + " GiB."
    if found.assumptions:
        why += f" Assumed: {'; '.join(found.assumptions)}."
    others = (memory.total or 0) - (memory.free or 0)
    if others > GIB and memory.total and found.low <= memory.total:
        why += f" {gib(others)} GiB of the card are in use now."
    source = (
        "a step measured on this machine"
        if found.measured
        else situation.cite_answer("transformers", "the model's code, counted")
    )
    return Finding(
        id=name, severity=severity, title=title, why=why, origin="observed" if found.measured else "asked",
        source=source, fixes=_fixes(situation, memory),
    )  # fmt: skip


def _fixes(situation: Situation, memory: Memory) -> tuple[Fix, ...]:
    """Return what would take less: what changes the training least comes first, and what surely fits before that."""
    get, work = situation.settings.get, workload_of(situation)
    found: list[Fix] = []
    batch, passes = int(get("per_device_train_batch_size") or 1), int(get("gradient_accumulation_steps") or 1)
    largest = memory.largest_batch or 0
    smaller = next((it for it in range(min(batch - 1, largest), 0, -1) if batch * passes % it == 0), 0)
    if smaller and situation.plan.trainer not in ("kto",):
        changes: dict[str, Any] = {
            "per_device_train_batch_size": smaller,
            "gradient_accumulation_steps": batch * passes // smaller,
        }
        label = f"{smaller} rows at once, {batch * passes // smaller} times a step: the same step"
        found.append(Fix(label=label, changes=changes))
    if not work.checkpointing:
        label = "Compute activations again instead of keeping them"
        found.append(Fix(label=label, changes={"gradient_checkpointing": True}))
    if work.width == 4 and not work.lora and work.autocast and not get("fp16"):
        _add(found, situation, memory, "Weights in bfloat16: half of their memory", {"dtype": "bfloat16"}, _half(work))
    if not work.lora:
        _add(found, situation, memory, "Train LoRA adapters instead of all weights", _lora(), _adapted(work))
    elif memory.longest and get("max_length") and memory.longest < int(get("max_length")):
        found.append(Fix(label=f"Rows of at most {memory.longest} tokens", changes={"max_length": memory.longest}))
    return tuple(found)


def _add(
    found: list[Fix], situation: Situation, memory: Memory, label: str, changes: dict[str, Any], work: Workload
) -> None:
    """Add a fix, with what it would take at most; one that surely fits comes first."""
    assert memory.free is not None
    high = estimate_of(situation, work).high
    if high <= memory.free:
        found.append(Fix(label=f"{label}: about {gib(high)} GiB", changes=changes))
    elif high < 0.9 * memory.estimate.high:
        found.append(Fix(label=label, changes=changes))


def _half(work: Workload) -> Workload:
    return msgspec.structs.replace(work, width=2, optimizer=optimizer_bytes(work.optimizer_name, 2))


def _adapted(work: Workload) -> Workload:
    # The adapters themselves are small beside what they spare.
    return msgspec.structs.replace(work, lora=True, references=0, optimizer=optimizer_bytes(work.optimizer_name, 4))


def _lora() -> dict[str, Any]:
    return {"use_peft": True, "lora_target_modules": ["all-linear"]}
