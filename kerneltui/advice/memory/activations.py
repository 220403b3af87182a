"""Activations of a whole model at any shape, from the counts of a few of its layers."""

from __future__ import annotations

from typing import NamedTuple

from kerneltui.advice.memory.workload import Workload
from kerneltui.facts.model import ModelFacts
from kerneltui.facts.model_memory import Count, ModelMemory

# Bytes of activations a token and hidden unit that a layer keeps in half precision (Korthikanti et al. 2022,
# arXiv:2205.05198, without the attention matrix): where the model's code could not be run.
_ROUGH = 34


class Activations(NamedTuple):
    """Bytes: kept from forward to backward, the peaks of both passes, and the peak of the bottom layer's backward."""

    kept: int
    forward: int
    backward: int
    bottom: int


def activations(memory: ModelMemory, model: ModelFacts, work: Workload) -> Activations:
    """Return the activations of one pass, the mask's copies among them."""
    layers = model.layers or 1
    found = _counted(memory.counts, layers, work) if memory.counts else _rough(model, layers, work)
    mask, copies = _mask_bytes(work)
    # Every layer that keeps its activations keeps a copy of the mask in the dtype of its scores.
    kept = mask + (0 if work.checkpointing else copies * layers)
    one = mask + copies
    return Activations(
        found.kept + kept,
        found.forward + max(kept, one),
        found.backward + max(kept, one),
        found.bottom + one,
    )


def _counted(counts: tuple[Count, ...], layers: int, work: Workload) -> Activations:
    few, many = min(it.layers for it in counts), max(it.layers for it in counts)

    def at(field: str, number: int) -> float:
        points = sorted((it.tokens, getattr(it, field)) for it in counts if it.layers == number)
        return _grown(points, work)

    step = (at("kept", many) - at("kept", few)) / (many - few) if many > few else 0.0
    rest = max(0, layers - few) * step
    kept, forward, backward = (at(name, few) for name in ("kept", "forward", "backward"))
    return Activations(int(kept + rest), int(forward + rest), int(backward + rest), int(backward))


def _grown(points: list[tuple[int, int]], work: Workload) -> float:
    """Return the bytes at the plan's shape: linear in tokens, and with two lengths also in pairs of tokens."""
    (tokens, size), *more = points
    if not more:
        return size / tokens * work.tokens
    (longer, larger), *_ = more
    pairs = (larger / longer - size / tokens) / (longer - tokens)
    single = size / tokens - pairs * tokens
    return single * work.tokens + pairs * _pairs(work)


def _pairs(work: Workload) -> int:
    return work.tokens**2 if work.in_one_row else work.rows * work.length**2


def _mask_bytes(work: Workload) -> tuple[int, int]:
    """Return the bytes of an explicit mask: a byte for each pair of tokens, and a layer's copy as numbers."""
    pairs = _pairs(work) if work.masked else 0
    return pairs, pairs * work.computing


def _rough(model: ModelFacts, layers: int, work: Workload) -> Activations:
    row = work.tokens * (model.hidden_size or 0)
    one = row * _ROUGH * max(1, work.computing // 2)
    if work.eager:
        one += _pairs(work) * (model.heads or 1) * (2 * work.computing + 4)
    kept = row * work.computing * layers if work.checkpointing else one * layers
    return Activations(kept, kept + one, kept + 2 * one, 2 * one)
