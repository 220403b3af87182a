"""The options that a run starts from, by server, model, trainer and data: one recommendation a subject."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import yaml

from kerneltui import demo
from kerneltui.advice.memory import (
    GIB,
    REFERENCE,
    Size,
    activation_bytes,
    free_memory,
    is_modern,
    parameters,
    size_of,
    state_bytes,
)
from kerneltui.advice.memory.fits import roomy_batch
from kerneltui.advice.recommendation import Recommendation
from kerneltui.advice.situation import Situation

# Samples a step: small enough to see the loss move, large enough for a steady gradient.
_EFFECTIVE_BATCH = 16
# Samples at once by the memory that weights and optimizer leave free, in GiB.
_STEPS = ((40, 8), (16, 4), (6, 2), (0, 1))
_LENGTHS = (256, 512, 1024, 2048, 4096)
_DEFAULT_LENGTH = 1024
_ONLINE = ("grpo", "rloo")
_GENERATIONS = 8  # TRL's own number of answers a prompt
# Layers that need further packages to keep packed samples apart (causal_conv1d, mamba_ssm, flash-linear-attention).
_RECURRENT = ("linear_attention", "conv", "mamba", "recurrent", "hybrid")
_RECURRENT_MODELS = ("mamba", "bamba", "falcon_h1", "lfm2", "qwen3_next", "qwen3_5", "jamba", "zamba", "rwkv")
_SMALL_MODEL = 100_000_000


def recommend_options(situation: Situation) -> Recommendation:
    """Return the recommended options with a reason for each; what the person set already is left as it is.

    A subject is left out as a whole where one of the fields that it decides was set to something else. Only fields
    that the trainer's installed configuration has are set.
    """
    if _is_demo(situation):
        found = [(_demo(situation), frozenset[str]())]
    else:
        size = size_of(situation)
        made = [(subject(situation, size), decides) for subject, decides in _SUBJECTS]
        found = [(recommendation, decides) for recommendation, decides in made if recommendation]
    values: dict[str, Any] = {}
    reasons: dict[str, str] = {}
    for recommendation, decides in found:
        if not any(_otherwise(situation, recommendation, name) for name in decides):
            wanted = {name: value for name, value in recommendation.values.items() if _open(situation, name)}
            values |= wanted
            reasons |= dict.fromkeys(wanted, recommendation.why)
    return Recommendation(values=values, why=" ".join(dict.fromkeys(reasons.values())), reasons=reasons)


def adapter_values(trainer: str) -> dict[str, Any]:
    """Return what turns LoRA on: adapters on every linear layer, for a reward model with its task.

    Without names peft takes the query and value projections alone; TRL's script does not set the task.
    """
    task = {"lora_task_type": "SEQ_CLS"} if trainer == "reward" else {}
    return {"use_peft": True, "lora_target_modules": ["all-linear"], **task}


def _open(situation: Situation, name: str) -> bool:
    """Whether the trainer has a field and the person has not set it."""
    return name in situation.settings.values and name not in situation.settings.given


def _otherwise(situation: Situation, recommendation: Recommendation, name: str) -> bool:
    """Whether the person set a field to another value than the recommended one."""
    given = name in situation.settings.given
    return given and situation.settings.values.get(name) != recommendation.values.get(name)


def _is_demo(situation: Situation) -> bool:
    return bool(situation.settings.get("model_name_or_path") == str(demo.model_path()))


def _demo(situation: Situation) -> Recommendation:
    """Return the settings of `kerneltui demo`, whose model is too small for those of a real one."""
    trainer = situation.plan.trainer
    values: dict[str, Any] = yaml.safe_load(demo.config_text(output_dir=None, gpu=is_modern(situation), steps=60))
    for name in ("model_name_or_path", "attn_implementation", "datasets"):
        values.pop(name)
    if situation.on_gpu and not is_modern(situation):
        for name in ("dtype", "bf16", "use_cpu", "dataloader_pin_memory"):
            values.pop(name)
        values |= _half_before_ampere() if situation.capabilities else {}
    if trainer != "sft":
        values |= {"learning_rate": 1e-4, "max_completion_length": 32}
        values.pop("packing")
    if trainer == "distillation":
        values["teacher_model_name_or_path"] = str(demo.model_path())
    values |= _reward(situation)
    return Recommendation(values=values, why="The settings of kerneltui's demo: 60 short steps of a tiny model.")


def _half_before_ampere() -> dict[str, Any]:
    return {"fp16": True, "bf16": False, "dtype": "float32"}


def _precision(situation: Situation, size: Size) -> Recommendation | None:
    if situation.on_gpu is False:
        values = {"use_cpu": True, "bf16": False, "dtype": "float32", "dataloader_pin_memory": False}
        return Recommendation(values=values, why="float32 is what every CPU computes at full speed.")
    if not situation.capabilities:
        return None
    if not is_modern(situation):
        why = "This GPU has no bfloat16: it computes in float16, with the weights in float32 as that needs."
        return Recommendation(values=_half_before_ampere(), why=why)
    if not size.half:
        return Recommendation(values={"bf16": True}, why="It computes in bfloat16 and keeps the weights in float32.")
    reason = "flash attention computes in it" if situation.attention.called_as_flash else "float32 would not fit"
    why = f"bfloat16 takes half the memory of TRL's default, and {reason}."
    return Recommendation(values={"dtype": "bfloat16", "bf16": True}, why=why)


def _lora(situation: Situation, size: Size) -> Recommendation | None:
    if not size.lora:
        return None
    count, free = parameters(situation) or 0, (free_memory(situation) or 0) / GIB
    full = state_bytes(count, half=size.half, lora=False, reference=situation.plan.trainer in REFERENCE) / GIB
    values = adapter_values(situation.plan.trainer)
    rate = situation.settings.get("learning_rate")
    if isinstance(rate, float) and "learning_rate" not in situation.settings.given:
        values["learning_rate"] = float(f"{rate * 10:.2g}")
    why = f"Training all weights takes about {full:.0f} GiB, and {free:.0f} GiB are free: LoRA trains a small part."
    if size.spare is not None and size.needed is not None and size.spare < 0:
        needed = size.needed / GIB
        why = f"Even LoRA takes about {needed:.0f} GiB here, and {free:.0f} GiB are free: take a smaller model."
    return Recommendation(values=values, why=why)


def _length(situation: Situation, size: Size) -> Recommendation | None:
    data, model = situation.data, situation.model
    limit = min(model.context if model and model.context else _LENGTHS[-1], _LENGTHS[-1])
    longest = max(data.tokens) if data and data.tokens else None
    wanted = _DEFAULT_LENGTH if longest is None else next((it for it in _LENGTHS if it >= longest), _LENGTHS[-1])
    if _packs(situation):
        wanted = max(wanted, _DEFAULT_LENGTH)
    length = min(wanted, limit)
    why = "TRL's usual length; the lengths of your data are not known here."
    if data and longest is not None:
        cut = ", and is cut" if longest > length else ""
        why = f"The longest of the first {len(data.rows)} rows has {longest} tokens{cut}."
    return Recommendation(values={"max_length": length}, why=why)


def _packs(situation: Situation) -> bool:
    """Whether packing is recommended: SFT with a kernel that keeps samples apart by their lengths."""
    model, data = situation.model, situation.data
    if situation.plan.trainer != "sft" or not situation.on_gpu or not situation.attention.called_as_flash:
        return False
    if model and (set(model.layer_types) & set(_RECURRENT) or model.model_type.startswith(_RECURRENT_MODELS)):
        return False
    return not (data and {"image", "images"} & set(data.types))


def _packing(situation: Situation, size: Size) -> Recommendation | None:
    if not _packs(situation):
        return None
    why = "Samples fill whole rows instead of padding, and this kernel keeps them apart: fewer, fuller steps."
    return Recommendation(values={"packing": True}, why=why)


def _batch(situation: Situation, size: Size) -> Recommendation | None:
    if situation.on_gpu is False:
        batch, why = 2, "Few samples at once, as a CPU is slow"
    elif counted := roomy_batch(situation, half=size.half, lora=size.lora, length=_row_length(situation, size)):
        batch, free = counted[0], (free_memory(situation) or 0) / GIB
        why = f"They take up to {counted[1] / GIB:.0f} GiB, and {free:.0f} GiB are free"
    elif size.spare is None:
        batch, why = 1, "How much memory is free is not known: one sample at once is safe"
    else:
        batch = next(samples for gib, samples in _STEPS if size.spare >= gib * GIB or not gib)
        why = f"About {max(size.spare, 0) / GIB:.0f} GiB are left beside weights and optimizer"
        if size.needed is None:
            why = "The size of the model is not known, so a quarter of the free memory counts"
    processes = max(1, situation.processes)
    passes = max(1, math.ceil(_EFFECTIVE_BATCH / (batch * processes)))
    if situation.plan.trainer in _ONLINE:  # whole groups of answers a step
        unit = _GENERATIONS // math.gcd(_GENERATIONS, batch * processes)
        passes = math.ceil(passes / unit) * unit
    if situation.plan.trainer == "kto" and batch == 1:  # its reference point needs another sample beside each
        batch, passes = 2, max(1, passes // 2)
    values = {"per_device_train_batch_size": batch, "gradient_accumulation_steps": passes}
    return Recommendation(values=values, why=f"{why}; {batch * passes * processes} samples make a step.")


def _row_length(situation: Situation, size: Size) -> int:
    """Return the tokens of a row: the person's choice, else what is recommended."""
    given = situation.settings.get("max_length") if "max_length" in situation.settings.given else None
    return int(given) if given else _value(situation, size, _length, "max_length")


def _checkpointing(situation: Situation, size: Size) -> Recommendation | None:
    """Leave TRL's recomputing on unless all activations clearly fit."""
    model, count = situation.model, parameters(situation)
    if model is None or count is None or situation.attention.implementation == "eager":
        return None
    batch = _value(situation, size, _batch, "per_device_train_batch_size")
    length = _value(situation, size, _length, "max_length")
    if situation.on_gpu is False:
        fits = count < _SMALL_MODEL
    else:
        fits = size.spare is not None and activation_bytes(model, batch * length, checkpointing=False) < size.spare / 4
    if not fits:
        return None
    why = "All activations fit, so nothing need be computed twice."
    return Recommendation(values={"gradient_checkpointing": False}, why=why)


def _value(situation: Situation, size: Size, subject: _Subject, name: str) -> int:
    found = subject(situation, size)
    return int(found.values[name]) if found else _DEFAULT_LENGTH


def _rewards(situation: Situation, size: Size) -> Recommendation | None:
    values = _reward(situation)
    why = "TRL's own check that answers think first; it needs nothing else. Put your own reward in its place."
    return Recommendation(values=values, why=why) if values else None


def _reward(situation: Situation) -> dict[str, Any]:
    """Return the reward that every conversation can be given, where none is chosen."""
    get = situation.settings.get
    if situation.plan.trainer not in _ONLINE or get("reward_funcs") or get("reward_model_name_or_path"):
        return {}
    conversational = situation.data is not None and situation.data.types.get("prompt") == "messages"
    return {"reward_funcs": ["think_format_reward"]} if conversational else {}


def _record(situation: Situation, size: Size) -> Recommendation | None:
    values = {"num_train_epochs": 1, "logging_steps": 5, "save_steps": 200, "save_total_limit": 2}
    why = "Once through the data, a point on the curves every 5 steps, and the last two checkpoints kept."
    return Recommendation(values=values, why=why)


_Subject = Callable[[Situation, Size], "Recommendation | None"]
# Each subject with the fields that decide on it together: where the person set one, the others are theirs too.
_SUBJECTS: tuple[tuple[_Subject, frozenset[str]], ...] = (
    (_precision, frozenset({"dtype", "bf16", "fp16"})),
    (_lora, frozenset({"use_peft", "load_in_4bit", "load_in_8bit"})),
    (_length, frozenset({"max_length"})),
    (_packing, frozenset({"packing", "padding_free"})),
    (
        _batch,
        frozenset({"per_device_train_batch_size", "gradient_accumulation_steps", "num_generations"})
        | {"generation_batch_size", "steps_per_generation"},
    ),
    (_checkpointing, frozenset({"gradient_checkpointing", "max_length", "per_device_train_batch_size"})),
    (_rewards, frozenset({"reward_funcs"})),
    (_record, frozenset()),
)
