"""How a plan spreads a model over its processes."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, Literal

import yaml

from kerneltui.plan.settings import Settings
from kerneltui.records import Record

# By accelerate's and torch's names of FSDP's strategies: which parts are spread.
_FSDP = {"FULL_SHARD": 3, "1": 3, "HYBRID_SHARD": 3, "4": 3, "SHARD_GRAD_OP": 2, "2": 2, "NO_SHARD": 0, "3": 0}


class Sharding(Record):
    """The stage, in ZeRO's count: 1 spreads the optimizer, 2 gradients too, 3 weights too; over `processes`.

    `kind` "ddp" keeps all on each card, with a second copy of the gradients in its buckets. `offload` tells that the
    optimizer's state lies in the host's memory.
    """

    kind: Literal["single", "ddp", "fsdp", "deepspeed"] = "single"
    stage: int = 0
    processes: int = 1
    offload: bool = False

    def share(self, stage: int) -> float:
        """Return the part of what is spread from `stage` on that one process holds."""
        return 1 / self.processes if self.stage >= stage else 1.0


def sharding_of(settings: Settings) -> Sharding:
    """Return how the plan's accelerate file, its flags and TRL's own fields spread the model."""
    processes = max(1, settings.processes)
    given = {**_file(settings.accelerate.get("config_file")), **settings.accelerate}
    kind = str(given.get("distributed_type") or "").upper()
    deepspeed = _mapping(given.get("deepspeed_config"))
    stage = given.get("zero_stage", deepspeed.get("zero_stage"))
    if kind == "DEEPSPEED" or given.get("use_deepspeed") or settings.get("deepspeed"):
        offload = str(deepspeed.get("offload_optimizer_device") or "none") != "none"
        return Sharding(
            kind="deepspeed", stage=int(stage if stage is not None else 2), processes=processes, offload=offload
        )
    if kind == "FSDP" or given.get("use_fsdp") or settings.get("fsdp"):
        found = _mapping(given.get("fsdp_config"))
        return Sharding(
            kind="fsdp",
            stage=_fsdp_stage({**given, **found}),
            processes=processes,
            offload=bool(found.get("fsdp_offload_params")),
        )
    return Sharding(kind="ddp" if processes > 1 else "single", processes=processes)


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _fsdp_stage(values: dict[str, Any]) -> int:
    """Return the stage of FSDP 1's strategy, or of FSDP 2's word on giving the weights back after forward."""
    again = values.get("fsdp_reshard_after_forward")
    if again is not None and str(again).lower() in ("true", "false"):
        return 3 if str(again).lower() == "true" else 2
    strategy = str(again or values.get("fsdp_sharding_strategy") or "FULL_SHARD").upper()
    return _FSDP.get(strategy, 3)


def _file(path: Any) -> dict[str, Any]:
    """Return accelerate's file, empty where it cannot be read."""
    with contextlib.suppress(OSError, yaml.YAMLError, UnicodeDecodeError):
        if path:
            found = yaml.safe_load(Path(str(path)).expanduser().read_text("utf-8"))
            return found if isinstance(found, dict) else {}
    return {}
