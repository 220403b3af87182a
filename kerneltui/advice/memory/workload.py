"""What a plan asks of a GPU's memory, in numbers that do not name a model: rows, lengths, dtypes, copies."""

from __future__ import annotations

from typing import Any

from kerneltui.advice.memory.sharding import Sharding, sharding_of
from kerneltui.advice.situation import Situation
from kerneltui.records import Record

_WIDTH = {"float32": 4, "bfloat16": 2, "float16": 2, "float64": 8}
# Bytes of state for each byte of a trained weight, by what the optimizer's name begins with (torch 2.11, transformers
# 5.22.2, bitsandbytes 0.48; first match counts). A state of 8 bits is a byte however wide the weight.
_OPTIMIZERS = (
    ("adamw_torch_8bit", "byte", 2.0),
    ("adamw_torch_4bit", "byte", 1.0),
    ("adamw_8bit", "byte", 2.0),
    ("adamw_bnb_8bit", "byte", 2.0),
    ("paged_adamw_8bit", "byte", 2.0),
    ("ademamix_8bit", "byte", 3.0),
    ("lion_8bit", "byte", 1.0),
    ("paged_lion_8bit", "byte", 1.0),
    ("rmsprop_bnb_8bit", "byte", 1.0),
    ("adafactor", "like", 0.0),
    ("sgd", "like", 0.0),
    ("lion", "like", 1.0),
    ("paged_lion", "like", 1.0),
    ("rmsprop", "like", 1.0),
    ("adagrad", "like", 1.0),
    ("ademamix", "like", 3.0),
    ("adamw", "like", 2.0),
    ("paged_adamw", "like", 2.0),
)
ONLINE = ("grpo", "rloo", "distillation")
"""Trainers that let the model write."""
_PAIRS = ("dpo", "reward")
# Tokens of a prompt where the data was not read.
_PROMPT = 512


class Workload(Record):
    """One process's share of a plan.

    `rows` are the sequences of one forward and backward pass, `length` the tokens of each. `width` is the bytes of a
    weight, `computing` those of an activation. `optimizer` is bytes of state for a trained weight. `references` are
    copies of the model beside the trained one. `writing` are the sequences generated at once, 0 where vLLM or nobody
    writes; `prompt` and `answer` their tokens. `masked` tells that an explicit mask of length x length is used;
    `in_one_row` that all rows lie in one.
    """

    trainer: str
    rows: int
    length: int
    width: int = 4
    computing: int = 2
    autocast: bool = True
    checkpointing: bool = True
    lora: bool = False
    eager: bool = False
    masked: bool = False
    in_one_row: bool = False
    optimizer: float = 8.0
    optimizer_name: str = "adamw_torch_fused"
    paged: bool = False
    references: int = 0
    quantized: int | None = None
    writing: int = 0
    prompt: int = 0
    answer: int = 0
    vllm_share: float | None = None
    fused_head: bool = True
    sharding: Sharding = Sharding()

    @property
    def tokens(self) -> int:
        """The tokens of one pass."""
        return self.rows * self.length


def workload_of(situation: Situation) -> Workload:
    """Return what the plan asks for; where it leaves a length open, the longest row that is known."""
    settings, trainer = situation.settings, situation.plan.trainer
    get = settings.get
    width = _width(situation)
    lora = bool(get("use_peft"))
    sharding = sharding_of(settings)
    name = str(get("optim") or "adamw_torch_fused")
    rows = int(get("per_device_train_batch_size") or 1) * (2 if trainer in _PAIRS else 1)
    prompt, answer = _prompt(situation), int(get("max_completion_length") or 0)
    packed = bool(get("packing") or get("padding_free"))
    sdpa = situation.attention.implementation == "sdpa"
    vllm = bool(get("use_vllm"))
    share = get("vllm_gpu_memory_utilization")
    return Workload(
        trainer=trainer,
        rows=rows,
        length=prompt + answer if trainer in ONLINE else _length(situation),
        width=width,
        computing=_WIDTH.get(situation.autocast or "", width),
        autocast=situation.autocast is not None,
        checkpointing=bool(get("gradient_checkpointing", True)),
        lora=lora,
        eager=situation.attention.implementation == "eager",
        masked=packed and sdpa,
        in_one_row=packed,
        optimizer=optimizer_bytes(name, 4 if lora else width),
        optimizer_name=name,
        paged=name.startswith("paged_"),
        references=_references(situation, lora),
        quantized=4 if get("load_in_4bit") else 8 if get("load_in_8bit") else None,
        writing=0 if vllm or trainer not in ONLINE else _writing(get),
        prompt=prompt,
        answer=answer,
        vllm_share=float(share) if vllm and share and get("vllm_mode", "colocate") == "colocate" else None,
        fused_head=_fused_head(situation),
        sharding=sharding,
    )


def optimizer_bytes(name: str, width: int) -> float:
    """Return the bytes of state that an optimizer keeps for a trained weight of `width` bytes; Adam's where unknown."""
    for start, kind, factor in _OPTIMIZERS:
        if name.startswith(start):
            return factor if kind == "byte" else factor * width
    return 2.0 * width


def _width(situation: Situation) -> int:
    dtype = situation.settings.dtype
    if dtype == "auto":
        dtype = situation.model.dtype if situation.model else None
    return _WIDTH.get(dtype or "float32", 4)


def _length(situation: Situation) -> int:
    """Return the tokens of a row: the plan's limit, or the longest known row where that is none."""
    limit = situation.settings.get("max_length")
    if limit:
        return int(limit)
    known = max(situation.data.tokens) if situation.data and situation.data.tokens else None
    return known or (situation.model.context if situation.model and situation.model.context else 1024)


def _prompt(situation: Situation) -> int:
    if situation.plan.trainer not in ONLINE:
        return 0
    return max(situation.data.tokens) if situation.data and situation.data.tokens else _PROMPT


def _writing(get: Any) -> int:
    passes = get("steps_per_generation") or get("gradient_accumulation_steps") or 1
    return int(get("per_device_train_batch_size") or 1) * int(passes)


def _references(situation: Situation, lora: bool) -> int:
    """Return how many frozen copies of the model stand beside it (TRL 1.16.0: dpo, kto; grpo and rloo with beta)."""
    trainer, get = situation.plan.trainer, situation.settings.get
    if lora or get("precompute_ref_log_probs"):
        return 0
    return int(trainer in ("dpo", "kto") or (trainer in ("grpo", "rloo") and bool(get("beta"))))


def _fused_head(situation: Situation) -> bool:
    """Return whether TRL computes losses without whole logits: from 1.14 on, in all trainers but the reward one."""
    version = situation.version("trl")
    return version is None or version.release >= (1, 14)
