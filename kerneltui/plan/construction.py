"""What the installed trainer says of a plan's options, from its own constructor on a tiny model (asked, not known)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kerneltui.interpreter import Asker
from kerneltui.plan.settings import ConfigError, Settings
from kerneltui.records import Record, from_builtins

# Their constructors want a server that runs.
_NEEDS_SERVER = ("async_grpo", "async_distillation", "server_distillation")


class Construction(Record):
    """The constructor's answer: what it `refused`, None where it took the options; and what it warned of (`said`).

    `left_out` are options that were not tried, since they are about the machine, the model or the data. The trackers
    are those of `report_to`: `missing` lack their package, `unknown` are not among those `known` to transformers.
    """

    refused: ConfigError | None = None
    said: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    known: tuple[str, ...] = ()


def can_construct(trainer: str) -> bool:
    """Return whether a trainer's constructor can be called here."""
    return trainer not in _NEEDS_SERVER


def construction_key(trainer: str, settings: Settings) -> str:
    """Return what the answer depends on: the trainer and the options that a person gave."""
    return json.dumps([trainer, _options(settings), _rewards(settings)], sort_keys=True, default=str)


def read_construction(trainer: str, settings: Settings, asker: Asker, model: Path) -> Construction:
    """Return what the trainer says of the options, tried on the tiny model at `model`. Raises KerneltuiError."""
    answer: dict[str, Any] = asker.ask(
        "trl.construct", trainer=trainer, values=_options(settings), model=str(model), rewards=_rewards(settings)
    )
    if (named := settings.get("report_to")) not in (None, "none", ["none"], []):
        answer |= asker.ask("transformers.trackers", report_to=named)
    return from_builtins(answer, Construction, "the trainer's answer")


def _options(settings: Settings) -> dict[str, Any]:
    """Return what was given of the trainer's own configuration and of its adapter."""
    owned = (settings.config_class, "ModelConfig")
    return {
        name: settings.values[name]
        for name in settings.given
        if name in settings.values and settings.owners.get(name, settings.config_class) in owned
    }


def _rewards(settings: Settings) -> int:
    functions = settings.get("reward_funcs") or ()
    count = 1 if isinstance(functions, str) else len(functions)
    return max(1, count + bool(settings.get("reward_model_name_or_path")))
