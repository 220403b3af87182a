"""What a data set offers to choose from: its configurations and splits, as `datasets` lists them."""

from __future__ import annotations

import contextlib
from typing import Any

from .datasets_adapter import cache_only, hub_has, on_hub, refusal
from .trl_adapter import directory


def choices(path: str, cwd: str, configuration: str | None = None) -> dict[str, Any]:
    """Return the configurations of a data set (a folder, or a name on the Hub), the default one, and its splits.

    `configuration` is the one whose splits are asked for; without it those of the default one, or of the only one.
    Where `datasets` refuses, the answer is `{"error_type", "error", "status"}`.
    """
    import datasets

    with directory(cwd):
        try:
            offline = on_hub(path) and not hub_has(path)
            with cache_only() if offline else contextlib.nullcontext():
                names = datasets.get_dataset_config_names(path)
                default = datasets.get_dataset_default_config_name(path)
                chosen = configuration or default or (names[0] if len(names) == 1 else None)
                splits = datasets.get_dataset_split_names(path, chosen) if chosen else []
        except Exception as error:  # noqa: BLE001 - told apart by type in the front end
            return refusal(error)
    return {"configurations": names, "default": default, "configuration": chosen, "splits": splits}


HANDLERS = {"data.choices": choices}
