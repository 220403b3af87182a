"""What a preflight of a plan is about: the implementation, the card, the packages and the shapes that decide it."""

from __future__ import annotations

from kerneltui.advice.situation import Situation
from kerneltui.facts.proof import Subject

# The packages whose code computes or calls attention.
_DECIDING = ("torch", "transformers", "kernels", "flash-attn", "flash-attn-3", "flash-attn-4", "triton")

# Tokens of a row where the plan sets no length.
_LENGTH = 1024


def subject_of(situation: Situation) -> Subject | str:
    """Return what the preflight of a plan is about, or why it can have none."""
    choice, build, model = situation.attention, situation.build, situation.model
    if situation.elsewhere:
        return "the plan is for another machine"
    if model is None:
        return "the model's configuration is not known"
    if not model.attention:
        return f"nothing is known of attention in {model.model_type}: its configuration names no heads"
    if choice.kind == "unknown":
        return f"transformers does not know {choice.implementation}"
    if choice.kind == "kernel" and (build is None or build.variant is None):
        return f"{choice.repository}@{choice.revision} has no build that loads here"
    gpu = situation.gpus[0] if situation.on_gpu and situation.gpus else None
    packages = situation.server.packages
    return Subject(
        implementation=choice.implementation,
        repository=choice.repository,
        commit=build.commit if build and choice.kind == "kernel" else None,
        variant=build.variant if build and choice.kind == "kernel" else None,
        content_hash=build.content_hash if build and choice.kind == "kernel" else None,
        device=(gpu.name or "GPU") if gpu else "cpu",
        capability=gpu.capability if gpu else None,
        driver=situation.server.driver if gpu else None,
        packages={name: packages[name].version for name in _DECIDING if name in packages},
        dtype=_dtype(situation.compute_dtype),
        shapes=model.attention,
        length=_length(situation),
        batch=int(situation.settings.get("per_device_train_batch_size") or 1),
        packed=bool(situation.settings.get("packing") or situation.settings.get("padding_free")),
    )


def _dtype(name: str | None) -> str:
    """Return the dtype that attention computes in by torch's name; float32 is transformers' own default."""
    return name if name in ("bfloat16", "float16", "float32") else "float32"


def _length(situation: Situation) -> int:
    """Return the tokens of the plan's longest row; with generation those of prompt and completion."""
    settings = situation.settings
    if isinstance(length := settings.get("max_length"), int) and length > 0:
        return length
    parts = [settings.get(name) for name in ("max_prompt_length", "max_completion_length")]
    return sum(part for part in parts if isinstance(part, int)) or _LENGTH
