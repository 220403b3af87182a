"""Keys and flags that TRL does not know: what they are called today, and what was meant."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import yaml

from kerneltui.advice.finding import Finding, Fix
from kerneltui.advice.situation import Situation
from kerneltui.errors import UsageError
from kerneltui.plan.plan import Plan, parse_config
from kerneltui.plan.secrets import is_secret
from kerneltui.text import nearest


class _Rename(NamedTuple):
    """The name that a field has today, and where the change is reported."""

    new: str
    source: str


# A rename is offered only where the installed trainer has the new field.
_RENAMES = {
    "max_seq_length": _Rename("max_length", "https://github.com/unslothai/unsloth/issues/10785"),
    "max_seq_len": _Rename("max_length", "https://github.com/unslothai/unsloth/issues/10785"),
    "torch_dtype": _Rename("dtype", "https://github.com/huggingface/trl/issues/3102"),
    "tokenizer": _Rename("processing_class", "https://github.com/unslothai/unsloth/issues/10740"),
    "evaluation_strategy": _Rename("eval_strategy", "transformers: TrainingArguments.eval_strategy"),
    "no_cuda": _Rename("use_cpu", "transformers: TrainingArguments.use_cpu"),
    "warmup_ratio": _Rename("warmup_steps", "transformers: TrainingArguments.warmup_steps (a ratio below 1)"),
    "use_liger": _Rename("use_liger_kernel", "transformers: TrainingArguments.use_liger_kernel"),
    "model_name": _Rename("model_name_or_path", "trl: ModelConfig.model_name_or_path"),
    "per_gpu_train_batch_size": _Rename("per_device_train_batch_size", "transformers: TrainingArguments"),
    "per_gpu_eval_batch_size": _Rename("per_device_eval_batch_size", "transformers: TrainingArguments"),
}
# Python arguments of the trainers that the `trl` command fills in itself.
_NOT_FOR_THE_COMMAND = {
    "tokenizer": "The trl command takes the tokenizer of the model; in Python it is the argument processing_class.",
    "processing_class": "The trl command takes the tokenizer of the model.",
    "peft_config": "The trl command makes it from use_peft and the lora_… fields.",
    "callbacks": "They can be given in Python only.",
    "data_collator": "It can be given in Python only.",
    "formatting_func": "It can be given in Python only.",
}
# What `accelerate launch` takes; TRL passes on what it does not know itself.
_ACCELERATE = (
    *("accelerate_config", "config_file", "num_processes", "num_machines", "machine_rank", "main_process_ip"),
    *("main_process_port", "mixed_precision", "gpu_ids", "multi_gpu", "use_deepspeed", "use_fsdp", "dynamo_backend"),
)


def unknown_keys(situation: Situation) -> list[Finding]:
    """A key that neither TRL nor `accelerate launch` knows stops the run before it starts."""
    return [_unknown_key(situation, name) for name in situation.settings.unknown]


def switches_with_value(situation: Situation) -> list[Finding]:
    """TRL hands `quiet: true` to accelerate as `--quiet True`, and accelerate takes "True" for the script."""
    settings = situation.settings
    pairs = zip(settings.launch_arguments, settings.launch_arguments[1:], strict=False)
    names = [flag.removeprefix("--") for flag, value in pairs if flag.startswith("--") and value in ("True", "False")]
    return [
        Finding(
            id=f"keys.switch.{name}",
            severity="block",
            title=f"{name} cannot be set in the configuration file",
            why=f"It is a switch of accelerate launch. TRL hands it on with a value (--{name} True), and accelerate "
            f"would take the value for the training script. Give --{name} on the command line instead.",
            origin="known",
            source=situation.cite("trl", "cli.commands.training.TrainingCommand"),
            fixes=(Fix(label="Remove it from the file", changes={name: None}),),
        )
        for name in names
        if isinstance(settings.accelerate.get(name), bool)
    ]


def _unknown_key(situation: Situation, written: str) -> Finding:
    name = written.replace("-", "_")
    trainer, fields = situation.plan.trainer, situation.settings.values
    rename = _RENAMES.get(name)
    new = rename.new if rename and rename.new in fields else None
    hint = f"It is called {new} today." if new else _NOT_FOR_THE_COMMAND.get(name, "")
    if not hint:
        # The value of a secret would stand in the fix.
        new = None if is_secret(name) else _nearest(name, (*fields, *_ACCELERATE))
        hint = f"Did you mean {new}?" if new else "It may be a field of another trainer."
    return Finding(
        id=f"keys.unknown.{name}",
        severity="block",
        title=f"TRL's {trainer} has no field {written}",
        why=f"{hint} TRL hands what it does not know to accelerate launch, which refuses it.",
        origin="asked",
        source=rename.source if rename else situation.cite_answer("trl", f"scripts.{trainer}.make_parser"),
        fixes=(
            *((_rename(situation.plan, written, new),) if new else ()),
            Fix(label=f"Remove {written}", changes={written: None}),
        ),
    )


def _rename(plan: Plan, old: str, new: str) -> Fix:
    """Return the fix that gives the value of `old` to `new`; torch's own names of dtypes lose their prefix."""
    value = _written_value(plan, old)
    if new == "dtype" and isinstance(value, str):
        value = value.removeprefix("torch.")
    if value is None:
        return Fix(label=f"Write {new} instead of {old}", changes={old: None}, nulls=(new,))
    return Fix(label=f"Write {new} instead of {old}", changes={old: None, new: value})


def _written_value(plan: Plan, name: str) -> Any:
    """Return the value that the flags or else the configuration give to `name`, None where there is none."""
    for position, flag in enumerate(plan.flags):
        found, equals, value = flag.partition("=")
        if found != f"--{name}":
            continue
        following = plan.flags[position + 1 : position + 2]
        given = value if equals else (following[0] if following and not following[0].startswith("--") else "true")
        with contextlib.suppress(yaml.YAMLError):
            return yaml.safe_load(given)
        return given
    return _written(plan.config).get(name)


@functools.lru_cache(maxsize=8)
def _written(config: str | None) -> Mapping[str, Any]:
    """Return what a configuration's text holds; judged again at each key, it is the same but for one line."""
    with contextlib.suppress(UsageError):
        return parse_config(config, "the configuration") if config else {}
    return {}


# The nearest of some two hundred names takes longer than all other rules.
_nearest = functools.lru_cache(maxsize=512)(nearest)


RULES: tuple[Callable[[Situation], list[Finding]], ...] = (unknown_keys, switches_with_value)
