"""The memory of a training step in parts: what stands all the time, and what comes and goes between its moments."""

from __future__ import annotations

from kerneltui.advice.memory.activations import Activations, activations
from kerneltui.advice.memory.workload import Workload
from kerneltui.facts.model import ModelFacts
from kerneltui.facts.model_memory import ModelMemory
from kerneltui.records import Record

MIB = 1 << 20
# TRL computes logits in tiles of so many tokens and words (trl 1.16.0 `kernels/chunked_logprob.py`, `utils.py`).
_TILE_TOKENS, _TILE_WORDS = 4096, 32768
# Whole logits, where TRL has no such head: once in the compute dtype, in float32, and the gradient of both.
_WHOLE_LOGITS = 10
# What CUDA's context and loaded kernels take of the card beside the allocator: seen on an H200 0.61 GiB for the context
# alone; more kernels load later, and older cards take less.
CONTEXT = (400 * MIB, 1200 * MIB)
# By how much the allocator's reserve stood above its peak in 31 measured steps: 0.3 to 14 %, mostly below 5 %.
_GAPS = 0.08
# What cuBLAS allocates through torch for the forward and the backward thread, each 32 MiB on Hopper (torch 2.11).
_WORKSPACE = 64 * MIB
_ADAPTER = 4  # PEFT keeps adapters in float32


class Part(Record):
    """A part of the memory: its name, its bytes at the highest moment, and how it was counted."""

    name: str
    size: int
    how: str = ""


class Estimate(Record):
    """What one GPU needs for a plan, in bytes.

    `peak` is the most that torch allocates, in the moment `at`; `parts` are what it consists of then. `low` and `high`
    are what that is on the card, with CUDA's context and the allocator's gaps; `assumptions` are what it rests on.
    `counted` tells that the model's own code was counted, not a rule of thumb. `measured` tells that `peak` was.
    """

    peak: int
    low: int
    high: int
    at: str
    parts: tuple[Part, ...]
    assumptions: tuple[str, ...] = ()
    counted: bool = True
    measured: bool = False


class _Standing(Record):
    """What stands through the whole step, and gradients as they grow: in bytes."""

    weights: int
    reference: int
    optimizer: int
    gradients: int
    head_gradient: int
    embedding: int
    layer: int
    copies: int


def estimate(work: Workload, memory: ModelMemory, model: ModelFacts, *, teacher: int = 0) -> Estimate:
    """Return the estimate of a plan; `teacher` is the number of parameters of a teacher or reward model beside."""
    standing = _standing(work, memory, model, teacher)
    active = activations(memory, model, work)
    moments = [*_passes(work, memory, model, standing, active), *_others(work, memory, model, standing)]
    at, parts = max(moments, key=lambda it: sum(part.size for part in it[1]))
    peak = sum(part.size for part in parts)
    spread = 0.05 if memory.counts else 0.4
    low = int(peak * (1 - spread)) + CONTEXT[0]
    high = int(peak * (1 + spread + _GAPS)) + CONTEXT[1] + _padded(work)
    kept = tuple(part for part in parts if part.size >= MIB)
    return Estimate(
        peak=peak,
        low=low,
        high=high,
        at=at,
        parts=kept,
        assumptions=_assumptions(work, memory),
        counted=bool(memory.counts),
    )


def _standing(work: Workload, memory: ModelMemory, model: ModelFacts, teacher: int) -> _Standing:
    share, layers = work.sharding.share, max(1, model.layers or 1)
    trained, width = (memory.adapters, _ADAPTER) if work.lora else (memory.parameters, work.width)
    body = memory.parameters - memory.embedding - (0 if memory.tied else memory.head)
    weights = memory.parameters * work.width
    if work.quantized:  # embedding, head and norms stay as they are
        weights = body * work.quantized // 8 + (memory.parameters - body) * work.width
    optimizer = trained * work.optimizer
    if work.sharding.kind == "deepspeed" and width < 4:
        optimizer = trained * 12  # a float32 copy of the weights, and both moments in it
    gradients = trained * width
    buckets = gradients if work.sharding.kind == "ddp" else 0
    gathered = 2 * body // layers * work.computing if work.sharding.stage == 3 else 0
    return _Standing(
        weights=int(weights * share(3)) + gathered + (trained * width if work.lora else 0) + buckets,
        reference=int((memory.parameters * work.references + teacher) * work.width * share(3)),
        optimizer=0 if work.sharding.offload else int(optimizer * share(1)),
        gradients=int(gradients * share(2)),
        head_gradient=0 if work.lora else int(memory.head * work.width * share(2)),
        embedding=0 if work.lora or not memory.tied else memory.embedding * work.width,
        layer=0 if work.lora else int(body // layers * work.width * share(2)),
        copies=body * work.computing if work.autocast and work.width > work.computing else 0,
    )


_Moment = tuple[str, tuple[Part, ...]]


def _passes(
    work: Workload, memory: ModelMemory, model: ModelFacts, standing: _Standing, active: Activations
) -> list[_Moment]:
    """Return the moments of forward and backward pass at which memory stands highest."""
    layers = max(1, model.layers or 1)
    scored = _scored(work, model)
    # Autocast keeps its copies of trained weights until the forward pass ends, and whatever the backward pass needs.
    held = 0 if work.checkpointing else standing.copies
    cached = 0 if work.lora and work.checkpointing else standing.copies
    one = held or standing.copies // layers
    before = standing.gradients - standing.layer
    return [
        ("the forward pass", _parts(standing, 0, active.forward + cached, 0)),
        ("the loss", _parts(standing, 0, active.kept + scored + held, _head_bytes(work, memory, model))),
        ("the first layer's backward pass", _parts(standing, standing.head_gradient, active.backward + one, 0)),
        ("the last layer's backward pass", _parts(standing, before, active.bottom + one, 0)),
        ("the embedding's gradient", _parts(standing, standing.gradients, scored, standing.embedding)),
    ]


def _others(work: Workload, memory: ModelMemory, model: ModelFacts, standing: _Standing) -> list[_Moment]:
    written = _cache_bytes(work, model)
    step = 0
    if work.optimizer_name == "adafactor":  # the update and its square, of the largest weight in float32
        step = 2 * 4 * max(memory.embedding, memory.head)
    work_part = Part(name="optimizer's work", size=step)
    found: list[_Moment] = [("the optimizer's step", (*_parts(standing, standing.gradients, 0, 0), work_part))]
    if written:
        cache = Part(name="generation", size=written, how="keys and values of what is written")
        found.append(("generation", (*_parts(standing, 0, 0, 0), cache)))
    return found


def _parts(standing: _Standing, gradients: int, activations: int, head: int) -> tuple[Part, ...]:
    return (
        Part(name="weights", size=standing.weights),
        Part(name="reference or teacher", size=standing.reference),
        Part(name="gradients", size=gradients),
        Part(name="optimizer", size=standing.optimizer),
        Part(name="activations", size=activations),
        Part(name="logits and loss", size=head),
        Part(name="cuBLAS workspace", size=_WORKSPACE),
    )


def _hidden(memory_head: int, model: ModelFacts) -> int:
    return model.hidden_size or (memory_head // model.vocabulary if model.vocabulary else 0)


def _scored(work: Workload, model: ModelFacts) -> int:
    """Return the bytes of the last hidden states that the loss keeps."""
    return 0 if work.trainer == "reward" else work.tokens * (model.hidden_size or 0) * work.computing


def _head_bytes(work: Workload, memory: ModelMemory, model: ModelFacts) -> int:
    """Return the bytes of logits, and of the gradients at the output projection while they are computed."""
    if work.trainer == "reward" or not memory.head:
        return 0
    if not work.fused_head:
        return work.tokens * (model.vocabulary or 0) * _WHOLE_LOGITS
    tile = min(work.tokens, _TILE_TOKENS) * _TILE_WORDS * work.computing
    hidden = work.tokens * _hidden(memory.head, model) * (4 + work.computing)
    if work.lora:
        return tile + hidden
    return tile + hidden + memory.head * (4 + (work.width if work.width < 4 else 0))


def _cache_bytes(work: Workload, model: ModelFacts) -> int:
    """Return the bytes of keys and values of what is written, and one layer's copy while a token is added."""
    heads = model.kv_heads or model.heads or 0
    each = heads * max(model.head_dims, default=0) * 2 * work.width
    tokens = work.writing * (work.prompt + work.answer)
    return tokens * each * ((model.layers or 0) + 1)


def _padded(work: Workload) -> int:
    """Return what a mask for padded rows would add on sdpa: there is none in full rows."""
    if work.masked or work.in_one_row or work.eager:
        return 0
    return work.rows * work.length**2 * (1 + work.computing)


def _assumptions(work: Workload, memory: ModelMemory) -> tuple[str, ...]:
    found = [f"every row is {work.length} tokens long"]
    if not memory.counts:
        found.append(f"activations by a rule of thumb, as the model's code could not be counted ({memory.error})")
    if work.writing:
        found.append(f"prompts of {work.prompt} tokens, answers of {work.answer}")
    if not work.fused_head and work.trainer != "reward":
        found.append("this TRL keeps whole logits")
    if work.quantized:
        found.append("what quantization unpacks at once is not counted")
    if work.sharding.stage:
        found.append(f"spread over {work.sharding.processes} GPUs ({work.sharding.kind}, stage {work.sharding.stage})")
    return tuple(found)
