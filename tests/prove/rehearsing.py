"""Situations whose settings have the fields that a rehearsal changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import yaml

from kerneltui import demo
from kerneltui.advice.situation import Situation
from tests.advice.situations import make_server, make_situation

# What TRL 1.16.0's parser gives for them.
_PARSED: dict[str, Any] = {
    "max_steps": -1, "logging_strategy": "steps", "logging_steps": 10, "logging_nan_inf_filter": True,
    "save_strategy": "steps", "load_best_model_at_end": False, "push_to_hub": False, "report_to": "none",
    "dataloader_drop_last": False, "eval_steps": None, "resume_from_checkpoint": None, "dataset_config": None,
    "dataset_train_split": "train", "dataset_test_split": "test", "dataset_name": None, "output_dir": None,
}  # fmt: skip


def on_the_cpu(trainer: str = "sft", cwd: Path = Path("/work"), **given: Any) -> Situation:
    """Return the situation of a small plan for the CPU; `given` is its configuration beside the device."""
    values = {
        "model_name_or_path": str(demo.model_path()),
        "datasets": [{"path": "json", "data_files": str(demo.data_path(trainer))}],
        "use_cpu": True, "bf16": False, "dataloader_pin_memory": False, "per_device_train_batch_size": 2,
        **given,
    }  # fmt: skip
    made = make_situation(trainer, server=make_server(), given=values, model=None)
    settings = msgspec.structs.replace(made.settings, values={**_PARSED, **made.settings.values})
    plan = msgspec.structs.replace(made.plan, cwd=str(cwd), config=yaml.safe_dump(values))
    return msgspec.structs.replace(made, settings=settings, plan=plan)


def with_values(situation: Situation, **values: Any) -> Situation:
    """Return the situation with other values of fields, as TRL would have parsed them."""
    settings = msgspec.structs.replace(situation.settings, values={**situation.settings.values, **values})
    return msgspec.structs.replace(situation, settings=settings)


def with_flags(situation: Situation, *flags: str) -> Situation:
    """Return the situation of a plan with flags after its file."""
    return msgspec.structs.replace(
        situation,
        plan=msgspec.structs.replace(situation.plan, flags=flags),
        settings=msgspec.structs.replace(situation.settings, script_flags=flags),
    )
