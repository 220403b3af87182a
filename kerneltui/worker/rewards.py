"""What TRL's own reward functions want of the data."""

from __future__ import annotations

import inspect
from typing import Any

# What the trainers hand to a reward function beside the columns (`GRPOTrainer._calculate_rewards`, TRL 1.16.0).
_GIVEN = ("prompts", "completions", "completion_ids", "trainer_state", "log_extra", "log_metric", "environments")


def missing_columns(names: Any, columns: list[str]) -> dict[str, list[str]]:
    """Return for each of TRL's reward functions in `names` the columns that it wants and the data lacks.

    A function of the person's own is not looked at: that would run their code.
    """
    from trl import rewards

    found: dict[str, list[str]] = {}
    for name in names if isinstance(names, list) else []:
        function = getattr(rewards, str(name), None)
        if inspect.isfunction(function) and not name.startswith("get_"):  # those are made with arguments of their own
            wanted = inspect.signature(function).parameters.values()
            missing = [it.name for it in wanted if it.default is it.empty and it.kind is it.POSITIONAL_OR_KEYWORD]
            missing = [wish for wish in missing if wish not in (*_GIVEN, *columns)]
            found |= {name: missing} if missing else {}
    return found
