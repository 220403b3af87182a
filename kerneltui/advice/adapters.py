"""LoRA: whether the layers that it is asked for are in the model.

Run with peft 0.21.2 under TRL 1.16.0: names of which none is there raise, those beside them that are not there are left
out without a word. TRL's `ModelConfig` makes a pattern of a list with one name, and peft matches a pattern with the
whole path of a layer: `[q_proj]` finds nothing, `[.*q_proj]` finds every q_proj.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from kerneltui.advice.finding import Finding, Fix, Severity
from kerneltui.advice.situation import Situation
from kerneltui.facts.model import ModelFacts

_ALL = "all-linear"
# Layers that are not linear and take an adapter all the same.
_EMBEDDINGS = ("embed_tokens", "wte", "word_embeddings")


def absent_targets(situation: Situation) -> list[Finding]:
    """Layers are named by the last part of their paths; a model without them gets no adapter there."""
    model, names = situation.model, _targets(situation)
    if model is None or not model.linear or not names or names == [_ALL]:
        return []
    if len(names) == 1:
        return _single(situation, model, names[0])
    absent = [name for name in names if not _has(model, name)]
    if not absent:
        return []
    none = len(absent) == len(names)
    title = f"This model has no layer {' or '.join(absent)}"
    why = "peft raises an error when it finds none of them." if none else "peft leaves them out without a word."
    return [_finding(situation, "block" if none else "warn", title, f"{why} {_told(model)}", _every())]


def idle_experts(situation: Situation) -> list[Finding]:
    """The experts of many mixtures are single large weights, which `lora_target_modules` does not reach."""
    model, get = situation.model, situation.settings.get
    if model is None or not model.experts or not get("use_peft") or get("lora_target_parameters"):
        return []
    why = f"They are no layers of their own; adapters go on {', '.join(model.linear) or 'nothing'} alone."
    fix = Fix(label="Train them too", changes={"lora_target_parameters": list(model.experts)})
    return [_finding(situation, "note", "LoRA leaves the experts as they are", why, fix)]


def _single(situation: Situation, model: ModelFacts, name: str) -> list[Finding]:
    """Judge a list with one name: TRL hands it to peft as a pattern for whole paths."""
    paths = [f"layers.0.{layer}" for layer in (*model.linear, *_EMBEDDINGS, *filter(None, [model.head]))]
    try:
        if any(re.fullmatch(name, path) for path in paths) or not re.fullmatch(r"[\w.]+", name):
            return []
    except re.error as error:
        return [_finding(situation, "block", f"{name} is no pattern", f"{error}.", _every())]
    if not _has(model, name):
        return [_finding(situation, "block", f"This model has no layer {name}", _told(model), _every())]
    title = f"LoRA finds no layer by the single name {name}"
    why = "TRL makes a pattern of a list with one name, and peft matches it with the whole path of a layer."
    pattern = Fix(label="Write it as a pattern", changes={"lora_target_modules": [rf".*{name}"]})
    return [_finding(situation, "block", title, why, pattern, _every())]


def _targets(situation: Situation) -> list[str]:
    named: Any = situation.settings.get("lora_target_modules") if situation.settings.get("use_peft") else None
    found = [named] if isinstance(named, str) else named
    return [str(name) for name in found] if isinstance(found, list) else []


def _has(model: ModelFacts, name: str) -> bool:
    return name.rpartition(".")[2] in {*model.linear, *_EMBEDDINGS, str(model.head).rpartition(".")[2]}


def _told(model: ModelFacts) -> str:
    return f"It has {', '.join(f'{name} ({count})' for name, count in model.linear.items())}."


def _every() -> Fix:
    return Fix(label="Take every linear layer", changes={"lora_target_modules": [_ALL]})


def _finding(situation: Situation, severity: Severity, title: str, why: str, *fixes: Fix) -> Finding:
    name = "experts" if severity == "note" else "targets"
    source = situation.cite_answer("transformers", "the layers of the model's class")
    return Finding(
        id=f"adapters.{name}", severity=severity, title=title, why=why, origin="asked", source=source, fixes=fixes
    )


RULES: tuple[Callable[[Situation], list[Finding]], ...] = (absent_targets, idle_experts)
