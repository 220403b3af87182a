"""A GPU that was out of memory: what torch said in numbers, which part of training asked, and what to change."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kerneltui.text import gibibytes

# Source: torch 2.11 c10/cuda/CUDACachingAllocator.cpp, the message of OutOfMemoryError; older ones lack some parts.
_SIZE = r"([\d.]+) (bytes|KiB|MiB|GiB|TiB)"
_UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_TRIED = re.compile(rf"Tried to allocate {_SIZE}")
_TOTAL = re.compile(rf"total capacity of {_SIZE}")
_FREE = re.compile(rf"of which {_SIZE} is free")
_OWN = re.compile(rf"this process has {_SIZE} memory in use")
_OTHERS = re.compile(rf"Process \d+ has {_SIZE} memory in use")
_ALLOCATED = re.compile(rf"Of the allocated memory {_SIZE} is allocated by PyTorch")
_RESERVED = re.compile(rf"{_SIZE} is reserved by PyTorch but unallocated")

# What the frames of a traceback tell of the part of training; the first that is found counts.
_PARTS: tuple[tuple[str, str], ...] = (
    ("evaluation", r"in (evaluate|evaluation_loop|prediction_step)\b"),
    ("generation", r"in (_?generate\w*|_sample)\b"),
    ("optimizer", r"in (_optimizer_step|_init_group|_multi_tensor_\w+)\b|optim/\w+\.py|optimizer\.step\("),
    ("backward", r"\.backward\(|in backward\b"),
    ("loss", r"in (?!_?compute_loss\b)\w*([lL]oss|cross_entropy|logits)\w*|lm_head\("),
    ("attention", r"in \w*attention\w*\b|sdpa_attention|flash_attention"),
    ("loading", r"in (from_pretrained|_load_pretrained_model|_move_model_to_device|create_model\w*)\b"),
    ("forward", r"in (forward|compute_loss|training_step)\b"),
)
_NAMES = {
    "evaluation": "the evaluation", "generation": "the generation of completions", "optimizer": "the optimizer's step",
    "backward": "the backward pass", "loss": "the loss over the vocabulary", "attention": "the attention",
    "loading": "loading the model", "forward": "the forward pass",
}  # fmt: skip
# Where these parts ask, the activations of the whole forward pass are held already.
_AFTER_FORWARD = ("loss", "backward", "optimizer")
# Of the memory that torch can have so much may be planned: the caching allocator loses some to fragments.
_USABLE = 0.85
# torch's AdamW keeps two moments of the parameters' own type; the gradients are as large as one.
_STATES = 3


@dataclass(frozen=True)
class Shortage:
    """What torch said, in bytes; None for what it did not say. `part` is the key of what asked, None if not known."""

    tried: int | None = None
    total: int | None = None
    free: int | None = None
    own: int | None = None
    others: int = 0
    allocated: int | None = None
    reserved: int | None = None
    part: str | None = None

    @property
    def available(self) -> int | None:
        """The bytes that torch could have had: what it had and what was free."""
        if self.free is None or self.allocated is None:
            return None
        return self.free + self.allocated + (self.reserved or 0)


@dataclass(frozen=True)
class Remedy:
    """What to change: the values of TRL's settings, and words with the numbers. `need` is the memory then, in bytes."""

    words: str
    changes: Mapping[str, Any]
    need: int | None = None


def read_shortage(message: str, traceback: str = "") -> Shortage | None:
    """Return what a message of torch says, None where it is not one of a GPU out of memory."""
    if "out of memory" not in message or not re.search(r"CUDA|HIP|XPU|GPU", message):
        return None
    others = sum(_bytes(found) for found in _OTHERS.finditer(message))
    return Shortage(
        tried=_read(_TRIED, message), total=_read(_TOTAL, message), free=_read(_FREE, message),
        own=_read(_OWN, message), others=others, allocated=_read(_ALLOCATED, message),
        reserved=_read(_RESERVED, message), part=_part(traceback),
    )  # fmt: skip


def cause_of(shortage: Shortage) -> str:
    """Return one line: which part asked, for how much, and how much there was."""
    where = f" in {_NAMES[shortage.part]}" if shortage.part else ""
    text = f"out of GPU memory{where}"
    if shortage.tried is not None:
        text += f": {gibibytes(shortage.tried)} more were asked for"
    if shortage.free is not None and shortage.total is not None:
        text += f", {gibibytes(shortage.free)} of {gibibytes(shortage.total)} were free"
    if shortage.others:
        text += f"; other processes held {gibibytes(shortage.others)}"
    return text


def remedy_for(shortage: Shortage, begin: Mapping[str, Any]) -> Remedy:
    """Return what to change, by what `train_begin` recorded: settings, and the memory that was taken then.

    The same number of samples a step is kept. The need is told from below where the forward pass was not yet whole.
    """
    settings = begin.get("settings") if isinstance(begin.get("settings"), Mapping) else {}
    assert isinstance(settings, Mapping)
    if shortage.others and (shortage.tried or 0) < shortage.others:
        return Remedy("Other processes hold what is lacking: end them, or choose another GPU (--gpus).", {})
    if not settings or shortage.part == "loading":
        return Remedy(
            "The model itself does not fit: load it in bfloat16 (dtype: bfloat16), train an adapter (use_peft: true), "
            "or spread it over several GPUs (accelerate_config: fsdp2).",
            {},
        )
    return _smaller_batch(shortage, begin, settings) or _less_a_sample(settings)


def _smaller_batch(shortage: Shortage, begin: Mapping[str, Any], settings: Mapping[str, Any]) -> Remedy | None:
    key = "per_device_eval_batch_size" if shortage.part == "evaluation" else "per_device_train_batch_size"
    batch, gathered = settings.get(key), settings.get("gradient_accumulation_steps")
    if not isinstance(batch, int) or not isinstance(gathered, int) or batch < 2:
        return None
    parts, need = _parts_needed(shortage, begin, batch)
    changes: dict[str, Any] = {key: batch // parts}
    if key == "per_device_train_batch_size":
        changes["gradient_accumulation_steps"] = gathered * parts
    words = ", ".join(f"{name} {settings.get(name)} → {value}" for name, value in changes.items())
    if need is not None and shortage.available is not None:
        least = "" if shortage.part in _AFTER_FORWARD else "at least "
        words += f": the same batch in all, and {least}about {gibibytes(need)} of {gibibytes(shortage.available)}"
    if settings.get("gradient_checkpointing") is False:
        words += ". Or gradient_checkpointing: true, which takes about a third more time"
    return Remedy(f"{words}.", changes, need)


def _parts_needed(shortage: Shortage, begin: Mapping[str, Any], batch: int) -> tuple[int, int | None]:
    """Return in how many parts to take the batch, a power of two that divides it, and the memory that is needed then.

    Weights, gradients and the optimizer's state stay; the rest goes with the batch.
    """
    choices = [1 << power for power in range(1, batch.bit_length()) if batch % (1 << power) == 0] or [batch]
    start, trainable = begin.get("memory_allocated"), begin.get("trainable_bytes")
    if shortage.available is None or not isinstance(start, int) or not isinstance(trainable, int):
        return choices[0], None
    fixed = start + _STATES * trainable
    moving = max(0, (shortage.allocated or 0) + (shortage.tried or 0) - start)
    needs = [(parts, fixed + moving // parts) for parts in choices]
    fitting = [place for place, (_, need) in enumerate(needs) if need <= _USABLE * shortage.available]
    place = fitting[0] if fitting else len(needs) - 1
    if shortage.part not in _AFTER_FORWARD:  # more of the forward pass was still to come
        place = min(place + 1, len(needs) - 1)
    return needs[place]


def _less_a_sample(settings: Mapping[str, Any]) -> Remedy:
    """Return what makes one sample smaller."""
    if settings.get("gradient_checkpointing") is False:
        words = "gradient_checkpointing: true: activations are computed again instead of kept, for a third more time."
        return Remedy(words, {"gradient_checkpointing": True})
    length = settings.get("max_length")
    if isinstance(length, int) and length > 1:
        return Remedy(
            f"max_length {length} → {length // 2}: half the activations; longer samples are cut. To keep them: an "
            "adapter (use_peft: true), or several GPUs (accelerate_config: fsdp2).",
            {"max_length": length // 2},
        )
    return Remedy("Train an adapter (use_peft: true), or use several GPUs (accelerate_config: fsdp2).", {})


def _part(traceback: str) -> str | None:
    return next((part for part, pattern in _PARTS if re.search(pattern, traceback)), None)


def _read(pattern: re.Pattern[str], message: str) -> int | None:
    found = pattern.search(message)
    return _bytes(found) if found else None


def _bytes(found: re.Match[str]) -> int:
    return int(float(found[1]) * _UNITS[found[2]])
