"""How much GPU memory training takes, in plain arithmetic from a model's configuration: orders of magnitude only."""

from __future__ import annotations

from typing import NamedTuple

from kerneltui.advice.situation import Situation
from kerneltui.facts.model import ModelFacts
from kerneltui.facts.server import AMPERE, Gpu

GIB = 1 << 30
# What CUDA's context, its libraries and the allocator's gaps take, in bytes.
_OVERHEAD = 2 * GIB
# Bytes of activations a token and hidden unit that one transformer layer keeps for its backward pass in half precision
# (Korthikanti et al. 2022, arXiv:2205.05198, without the attention matrix).
_ACTIVATION = 34
# Families whose experts the configuration's width says nothing of.
_EXPERTS = ("moe", "gpt_oss", "mixtral", "deepseek", "llama4", "dbrx", "jamba")


REFERENCE = ("dpo", "kto")
"""Trainers that keep a second model beside the one that is trained."""


class Size(NamedTuple):
    """What the model takes: weights in 16 bits or not, LoRA or not, bytes in all and left; None where not known."""

    half: bool
    lora: bool
    spare: int | None
    needed: int | None


def size_of(situation: Situation) -> Size:
    """Return what fits: all weights in float32 (where attention computes in it), then in bfloat16, then LoRA."""
    count, free = parameters(situation), free_memory(situation)
    ways = [(False, False), (True, False), (True, True)]
    if not is_modern(situation):
        ways = [(False, False), (False, True)]
    elif situation.attention.called_as_flash:
        ways = ways[1:]
    if count is None or free is None:
        return Size(ways[0][0], False, free // 4 if free else None, None)
    reference = situation.plan.trainer in REFERENCE
    needs = {way: state_bytes(count, half=way[0], lora=way[1], reference=reference) for way in ways}
    chosen = next((way for way in ways if needs[way] < 0.8 * free), ways[-1])
    return Size(*chosen, free - needs[chosen], needs[chosen])


def is_modern(situation: Situation) -> bool:
    """Return whether every GPU of the run computes in bfloat16; False where that is not known, and on the CPU."""
    return bool(situation.capabilities) and situation.capabilities[0] >= AMPERE


def parameters(situation: Situation) -> int | None:
    """Return how many parameters the plan's model has, as counted, else as its configuration lets expect."""
    return situation.memory.parameters if situation.memory else expected_parameters(situation.model)


def expected_parameters(model: ModelFacts | None) -> int | None:
    """Return how many parameters a model has by its class, else about how many a dense one has.

    None for mixtures of experts and where facts are missing.
    """
    if model is not None and model.parameters is not None:
        return model.parameters
    if model is None or not model.layers or not model.hidden_size or any(it in model.model_type for it in _EXPERTS):
        return None
    layer = 12 * model.hidden_size**2  # attention 4, MLP 8
    return model.layers * layer + 2 * (model.vocabulary or 0) * model.hidden_size


def free_memory(situation: Situation) -> int | None:
    """Return the bytes that are free on the fullest GPU of the run, None where that is not told."""
    found = [_free(gpu) for gpu in situation.gpus] if situation.on_gpu else []
    known = [size for size in found if size is not None]
    return min(known) if known and len(known) == len(found) else None


def _free(gpu: Gpu) -> int | None:
    if gpu.memory_free is not None:
        return gpu.memory_free
    return gpu.memory_total if gpu.memory_used is None else None


def state_bytes(count: int, *, half: bool, lora: bool, reference: bool) -> int:
    """Return the bytes of weights, gradients and Adam's two moments for `count` parameters, with the overhead.

    `half`: weights in 16 bits. `lora`: the weights are frozen. `reference`: a second model stays beside (DPO, KTO).
    """
    width = 2 if half else 4
    copies = 1 if lora else 4
    # With LoRA the reference is the same model without its adapters.
    return count * width * (copies + (1 if reference and not lora else 0)) + _OVERHEAD


def activation_bytes(model: ModelFacts, tokens: int, *, checkpointing: bool) -> int:
    """Return the bytes of activations for so many tokens at once; recomputing keeps one value a layer and one layer."""
    width, layers = model.hidden_size or 0, model.layers or 0
    one_layer = tokens * width * _ACTIVATION
    return tokens * width * 2 * layers + one_layer if checkpointing else one_layer * layers
