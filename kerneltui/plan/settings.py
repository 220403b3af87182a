"""A plan as the installed TRL reads it."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from kerneltui.errors import UsageError
from kerneltui.interpreter import Asker, ProgressCallback
from kerneltui.plan.plan import Plan
from kerneltui.plan.secrets import leave_out, secret_names
from kerneltui.records import Record, from_builtins
from kerneltui.text import did_you_mean, plain


class ConfigError(Record):
    """An error that one of TRL's configuration classes raised; `field` is the first of its fields that it names."""

    type: str
    message: str
    field: str | None = None


class Settings(Record):
    """The values of every field of the trainer's command, as TRL's own parser reads configuration and flags.

    `config_class` is the trainer's configuration class, and `owners` names the class of each field; `given` are the
    names that the person set; `unknown` those that neither TRL nor `accelerate launch` knows;
    `accelerate` the arguments of `accelerate launch` among them, and `processes` how many it would start on
    all `machines` together; `launch_arguments` and `script_flags` the split of the command line that the `trl`
    command makes.
    """

    values: dict[str, Any]
    config_class: str
    owners: dict[str, str] = {}
    given: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    accelerate: dict[str, Any] = {}
    processes: int = 1
    machines: int = 1
    errors: tuple[ConfigError, ...] = ()
    launch_arguments: tuple[str, ...] = ()
    script_flags: tuple[str, ...] = ()

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of a field, `default` where this trainer or this TRL has no such field."""
        return self.values.get(name, default)

    @property
    def model_kwargs(self) -> dict[str, Any]:
        """The `model_init_kwargs` mapping without its secrets; its entries override the flags of the same meaning."""
        kept: dict[str, Any] = leave_out(self._model_kwargs)
        return kept

    @property
    def model_secrets(self) -> tuple[str, ...]:
        """The names of the secrets in `model_init_kwargs`."""
        return tuple(secret_names(self._model_kwargs))

    @property
    def _model_kwargs(self) -> dict[str, Any]:
        """The mapping as it is; on the command line it is a JSON string, which TRL decodes only later."""
        found = self.values.get("model_init_kwargs")
        if isinstance(found, str):
            with contextlib.suppress(ValueError):
                found = json.loads(found)
        return found if isinstance(found, dict) else {}

    @property
    def attention(self) -> str | None:
        """The attention implementation that is asked for; of a mapping by sub-model that of the text model.

        Source: transformers 5.22.2 `PreTrainedModel.set_attn_implementation`; "" stands for the model itself.
        """
        found = self.model_kwargs.get("attn_implementation", self.values.get("attn_implementation"))
        while isinstance(found, dict):
            found = found.get("text_config", found.get(""))
        return found if isinstance(found, str) else None

    def with_attention(self, asked: str) -> Settings:
        """Return the settings of a plan that asks for another attention implementation, where this one asks for it."""
        values = {**self.values, "attn_implementation": asked}
        if "attn_implementation" in self.model_kwargs:
            values["model_init_kwargs"] = {**self._model_kwargs, "attn_implementation": asked}
        return msgspec.structs.replace(self, values=values)

    @property
    def dtype(self) -> str | None:
        """The dtype in which weights are loaded; "auto" means that of the checkpoint."""
        found = self.model_kwargs.get("dtype", self.values.get("dtype"))
        return str(found) if found is not None else None


def read_settings(
    plan: Plan,
    asker: Asker,
    *,
    devices: int = 0,
    elsewhere: bool = False,
    on_progress: ProgressCallback | None = None,
) -> Settings:
    """Return TRL's reading of `plan`; `devices` is how many GPUs the run would see. Raises UsageError when refused.

    `elsewhere` tells that it would run on another machine.
    """
    with tempfile.TemporaryDirectory() as folder:
        config = None
        if plan.config is not None:
            config = Path(folder, "config.yaml")
            config.write_bytes(plan.config.encode("utf-8"))
        answer = asker.ask(
            "trl.parse",
            on_progress=on_progress,
            trainer=plan.trainer,
            config=str(config) if config else None,
            flags=list(plan.flags),
            cwd=plan.cwd,
            devices=devices,
            elsewhere=elsewhere,
        )
    if "trainers" in answer:
        raise unknown_trainer(plan.trainer, answer["trainers"])
    if "error" in answer:
        raise UsageError(
            f"TRL does not accept these arguments for {plan.trainer}",
            plain(answer["error"]),
            f"`trl {plan.trainer} --help` lists them all.",
        )
    return from_builtins(answer, Settings, "TRL's reading of the plan")


def unknown_trainer(name: str, trainers: Sequence[str]) -> UsageError:
    """Return the error for a trainer that is not among those of the installed TRL."""
    return UsageError(
        f"TRL has no trainer {name!r}",
        f"The installed one has {', '.join(trainers)}.",
        did_you_mean(name, trainers) or "Choose one of them.",
    )
