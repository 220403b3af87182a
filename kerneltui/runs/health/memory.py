"""Memory of the host and of the GPUs that creeps up until there is none."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from statistics import fmean

from kerneltui.runs.alert import Alert
from kerneltui.runs.health.window import Window, by_gpu
from kerneltui.text import duration, gibibytes

# Over how many seconds it must rise, in how many parts, and by what part of the whole.
_SPAN = 600.0
_PARTS = 5
_RISE = 0.02
# It is said where the end is nearer than this, or where so much is used. Seconds, and a part of the whole.
_NEAR = 7200.0
_FULL = 0.95


def find(window: Window) -> Iterator[Alert]:
    """Give where memory will be at its end."""
    samples = [sample for sample in window.last(_SPAN) if sample.memory_used and sample.memory_total]
    if samples:
        used = [float(sample.memory_used or 0) for sample in samples]
        yield from _host(used, float(samples[-1].memory_total or 0))
    for name, cards in by_gpu(window.last(_SPAN)):
        held = [float(card.memory_used) for card in cards if card.memory_used is not None]
        if window.memory_total:
            yield from _card(name, held, float(window.memory_total))


def _host(used: Sequence[float], total: float) -> Iterator[Alert]:
    left = seconds_left(used, total)
    if used[-1] > _FULL * total:
        yield Alert(
            id="host_memory", severity="block", text=f"the host's memory is full: {_of(used[-1], total)}",
            why="The kernel ends the process that holds most when nothing is left; that is mostly the training.",
            next_step="Ask for a checkpoint now (kerneltui checkpoint RUN). Then fewer dataloader_num_workers, or a "
            "data set that is streamed.",
        )  # fmt: skip
    elif left is not None:
        yield Alert(
            id="host_memory_creeps", severity="warn",
            text=f"the host's memory creeps up: {_of(used[-1], total)}, full in about {duration(left)}",
            why=f"It rose in every part of the last {_SPAN / 60:.0f} minutes.",
            next_step="Ask for a checkpoint before. Fewer dataloader_num_workers; look for lists that grow in your "
            "reward functions or data.",
        )  # fmt: skip


def _card(name: str, held: Sequence[float], total: float) -> Iterator[Alert]:
    left = seconds_left(held, total)
    if left is not None:
        yield Alert(
            id=f"gpu_memory_creeps:{name}", severity="warn",
            text=f"memory of {name} creeps up: {_of(held[-1], total)}, full in about {duration(left)}",
            why=f"It rose in every part of the last {_SPAN / 60:.0f} minutes.",
            next_step="Longer samples may still come (max_length limits them); PYTORCH_ALLOC_CONF="
            "expandable_segments:True keeps fragments small.",
        )  # fmt: skip


def seconds_left(used: Sequence[float], total: float) -> float | None:
    """Return when memory will be full at its present rise, None where it does not rise steadily, or not soon."""
    size = len(used) // _PARTS
    if not size:
        return None
    means = [fmean(used[part * size : (part + 1) * size]) for part in range(_PARTS)]
    steady = all(after > before for before, after in itertools.pairwise(means))
    rise = means[-1] - means[0]
    if not steady or rise < _RISE * total:
        return None
    a_second = rise / (_SPAN * (_PARTS - 1) / _PARTS)
    left = (total - used[-1]) / a_second
    return left if left < _NEAR else None


def _of(used: float, total: float) -> str:
    return f"{gibibytes(used)} of {gibibytes(total)}"
