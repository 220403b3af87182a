"""A plan as a Python script that trains the same with TRL's classes.

It does what the script behind the `trl` command does (`trl.scripts.sft.main` and its siblings, TRL 1.16.0).
"""

from __future__ import annotations

import contextlib
import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kerneltui.errors import UsageError
from kerneltui.plan.form_parts import (
    commented,
    configuration,
    environment,
    secrets_comment,
    unknown_comment,
    without_secrets,
)
from kerneltui.plan.plan import Plan
from kerneltui.plan.secrets import is_secret, leave_out
from kerneltui.plan.settings import Settings

# The trainers that the `trl` command has had (TRL 1.5 to 1.16); others are those of `trl.experimental`.
COMMANDS = ("sft", "dpo", "kto", "reward", "grpo", "rloo", "distillation")
_ONLINE = ("grpo", "rloo")
# The fields of ModelConfig that say which model is loaded and how; the others are for adapters and quantization.
_LOADING = ("model_name_or_path", "model_revision", "dtype", "attn_implementation")
# Fields of the scripts' own arguments that the script below carries.
_SCRIPT = (
    *("dataset_name", "dataset_config", "dataset_train_split", "dataset_test_split", "dataset_streaming"),
    *("reward_funcs", "reward_model_name_or_path"),
)
_WIDTH = 100


def as_python(plan: Plan, settings: Settings) -> str:
    """Return the script. The model is loaded by `from_pretrained` where TRL would load it just so.

    Raises UsageError where no model or no data is named, and for a trainer of `trl.experimental`.
    """
    if plan.trainer not in COMMANDS:
        raise UsageError(
            f"There is no Python form of {plan.trainer}",
            "It is experimental in TRL: what its class takes is not known here.",
            f"`kerneltui launch {plan.trainer}` starts it.",
        )
    if not settings.get("model_name_or_path"):
        raise UsageError("No model is named", hint="Give model_name_or_path: a folder or a Hub name.")
    if not settings.get("dataset_name") and not settings.get("datasets"):
        raise UsageError("No data is named", hint="Give dataset_name or datasets.")
    return _Script(plan, settings).text()


class _Script:
    """The parts of one script; `imports` collects what they need."""

    def __init__(self, plan: Plan, settings: Settings) -> None:
        self.plan = plan
        self.settings = settings
        self.given = {name: leave_out(settings.values[name]) for name in settings.given if not is_secret(name)}
        self.config_class = settings.config_class
        self.trainer_class = f"{self.config_class.removesuffix('Config')}Trainer"
        self.imports: set[tuple[str, str]] = {("trl", self.config_class), ("trl", self.trainer_class)}

    def text(self) -> str:
        body = [
            *self._model(),
            *self._model_arguments(),
            *self._data(),
            *self._rewards(),
            self._trainer(),
            *self._end(),
        ]
        parts = ["\n".join(self._environment()), "\n".join(self._import_lines()), "\n".join(body)]
        return commented(self._comments(), "\n\n".join(part for part in parts if part) + "\n")

    def _comments(self) -> Iterator[str]:
        config = ["--config", self.plan.config_path] if self.plan.config_path else []
        command = ["trl", self.plan.trainer, *config, *without_secrets(self.plan.flags)]
        yield f"The same training as: {shlex.join(command)}"
        launch = shlex.join(["accelerate", "launch", *self._launch_arguments(), "THIS_FILE"])
        yield f"Start it as trl does, in {self.plan.cwd}: {launch}"
        if not self._instance:
            yield "TRL loads the model here, so that what else it loads is of the same revision and kind."
        elif self.plan.trainer != "reward":
            yield "A model that reads images needs its own class: AutoModelForImageTextToText."
        variables = {**environment(self.plan), **(configuration(self.plan).get("env") or {})}
        names = [name for name in (*self.settings.given, *variables) if is_secret(name)]
        yield from secrets_comment([*names, *(f"model_init_kwargs.{name}" for name in self.settings.model_secrets)])
        yield from unknown_comment(self.settings.unknown)
        left = [
            name
            for name, owner in self.settings.owners.items()
            if name in self.given
            and owner not in (self.config_class, "ModelConfig", "DatasetMixtureConfig")
            and name not in _SCRIPT
        ]
        if left:
            yield f"Left out: {', '.join(left)}. Only the script behind the trl command has them."

    def _launch_arguments(self) -> Iterator[str]:
        """Give the arguments of `accelerate launch`, without those that it does not know."""
        keep = True
        for argument in self.settings.launch_arguments:
            if argument.startswith("--"):
                keep = argument[2:].partition("=")[0] not in self.settings.unknown
            if keep:
                yield argument

    def _environment(self) -> Iterator[str]:
        variables = {**environment(self.plan), **(configuration(self.plan).get("env") or {})}
        shown = {name: str(value) for name, value in variables.items() if not is_secret(name)}
        if self._paths:
            yield "import importlib"
        if shown or self._paths:
            yield "import os"
        if self._paths:
            yield "import sys"
        if shown:
            yield f"\n# Before torch and kernels are imported.\n{_call('os.environ.update', _source(shown))}"
        if self._paths:
            yield "\nsys.path.insert(0, os.getcwd())"

    def _import_lines(self) -> Iterator[str]:
        for module in sorted({module for module, _ in self.imports}):
            names = sorted(name for found, name in self.imports if found == module)
            line = f"from {module} import {', '.join(names)}"
            yield line if len(line) <= _WIDTH else _bracketed(f"from {module} import (", names, ")")

    @property
    def _paths(self) -> list[str]:
        """The reward functions that are given by their import path."""
        return [name for name in self.given.get("reward_funcs") or [] if "." in name]

    @property
    def _quantized(self) -> bool:
        return bool(self.given.get("load_in_4bit") or self.given.get("load_in_8bit"))

    @property
    def _instance(self) -> bool:
        """Whether `from_pretrained` gives what TRL would load.

        TRL takes tokenizer, reference and reward models from the same revision, with the same arguments and
        quantization, only when it loads the model itself; and layer kernels (`use_kernels`) are chosen for the device
        that the model is loaded to, which with TRL is the GPU.
        """
        return (
            self._revision == "main"
            and not self._quantized
            and not self.settings.model_kwargs.get("use_kernels")
            and not self.given.get("reward_model_name_or_path")
            and self.plan.trainer != "distillation"
        )

    @property
    def _revision(self) -> Any:
        return self.settings.model_kwargs.get("revision", self.settings.get("model_revision", "main"))

    def _model_options(self) -> dict[str, Any]:
        """Return the keyword arguments of `from_pretrained`."""
        options = {
            "revision": self._revision if self._revision != "main" else None,
            "attn_implementation": self.settings.attention,
            "dtype": self.settings.dtype,
            "trust_remote_code": self.settings.get("trust_remote_code") or None,
        }
        return {
            **{name: value for name, value in options.items() if value is not None},
            **{name: value for name, value in self.settings.model_kwargs.items() if name != "revision"},
        }

    def _model(self) -> Iterator[str]:
        path = repr(self.settings.get("model_name_or_path"))
        if not self._instance:
            return
        model_class, options = "AutoModelForCausalLM", self._model_options()
        if self.plan.trainer == "reward":
            model_class, options = "AutoModelForSequenceClassification", {"num_labels": 1, **options}
            self.imports.add(("transformers", "set_seed"))
            yield f"set_seed({self.settings.get('seed', 42)!r})  # the new head is drawn at random"
        self.imports.add(("transformers", model_class))
        yield f"model = {_call(f'{model_class}.from_pretrained', path, **_sources(options))}"

    def _model_arguments(self) -> Iterator[str]:
        """Give TRL's record of adapters and quantization where there is one of them."""
        if not (self.given.get("use_peft") or self._quantized):
            return
        names = [
            name for name in self.given if self.settings.owners.get(name) == "ModelConfig" and name not in _LOADING
        ]
        values = {name: self.given[name] for name in names}
        if self._quantized:
            values["dtype"] = self.settings.get("dtype")  # TRL computes in it
        self.imports.add(("trl", "ModelConfig"))
        yield f"model_args = {_call('ModelConfig', **_sources(values))}"

    def _data(self) -> Iterator[str]:
        if self.settings.get("datasets"):
            values = {n: v for n, v in self.given.items() if self.settings.owners.get(n) == "DatasetMixtureConfig"}
            self.imports |= {("trl", "DatasetMixtureConfig"), ("trl", "get_dataset")}
            mixture = _call("DatasetMixtureConfig", **_sources({"datasets": self.settings.get("datasets"), **values}))
            yield f"dataset = {_call('get_dataset', mixture)}"
            return
        options = {"name": self.settings.get("dataset_config"), "streaming": self.settings.get("dataset_streaming")}
        self.imports.add(("datasets", "load_dataset"))
        source = _sources({name: value for name, value in options.items() if value})
        yield f"dataset = {_call('load_dataset', repr(self.settings.get('dataset_name')), **source)}"

    def _rewards(self) -> Iterator[str]:
        if self.plan.trainer not in _ONLINE:
            return
        sources = []
        if model := self.given.get("reward_model_name_or_path"):
            sources.append(repr(model))
        for name in self.given.get("reward_funcs") or []:
            module, dot, function = name.rpartition(".")
            if not function.isidentifier():
                raise UsageError(f"No reward function {name!r}", hint="Give its name in TRL, or module.function.")
            if dot:
                sources.append(f"importlib.import_module({module!r}).{function}")
                continue
            self.imports.add(("trl.rewards", name))
            # trl.scripts.grpo.main gives this one its arguments.
            arguments = {"max_completion_len": "1280", "soft_punish_cache": "256"}
            sources.append(_call(name, **arguments) if name == "get_soft_overlong_punishment" else name)
        yield f"reward_funcs = {_bracketed('[', sources, ']')}"

    def _trainer(self) -> str:
        get = self.settings.get
        evaluate = get("eval_strategy", "no") != "no"
        arguments = {"model": "model" if self._instance else repr(get("model_name_or_path"))}
        if self.plan.trainer == "distillation":
            arguments["teacher_model"] = repr(get("teacher_model_name_or_path"))
        if self.plan.trainer in _ONLINE:
            arguments["reward_funcs"] = "reward_funcs"
        arguments["args"] = _call(self.config_class, **_sources(self._configuration()))
        arguments["train_dataset"] = f"dataset[{get('dataset_train_split', 'train')!r}]"
        if evaluate:
            arguments["eval_dataset"] = f"dataset[{get('dataset_test_split', 'test')!r}]"
        if self._quantized:
            self.imports.add(("trl", "get_quantization_config"))
            arguments["quantization_config"] = "get_quantization_config(model_args)"
        if self.given.get("use_peft"):
            self.imports.add(("trl", "get_peft_config"))
            arguments["peft_config"] = "get_peft_config(model_args)"
        return f"trainer = {_call(self.trainer_class, **arguments)}"

    def _configuration(self) -> dict[str, Any]:
        """Return the keyword arguments of the configuration class."""
        owners = self.settings.owners
        values = {name: value for name, value in self.given.items() if owners.get(name) == self.config_class}
        values.pop("model_init_kwargs", None)
        if not self._instance:
            values["model_init_kwargs"] = self._model_options()
        if self.plan.trainer == "distillation":
            revision = self.settings.get("teacher_model_revision")
            options = {name: self._model_options().get(name) for name in ("attn_implementation", "dtype")}
            options = {"revision": revision, **options, **_mapping(values.get("teacher_model_init_kwargs"))}
            values["teacher_model_init_kwargs"] = {n: v for n, v in options.items() if v is not None}
        return values

    def _end(self) -> Iterator[str]:
        resume = self.settings.get("resume_from_checkpoint")
        yield f"trainer.train({f'resume_from_checkpoint={resume!r}' if resume else ''})"
        yield "trainer.save_model()"
        if self.settings.get("push_to_hub"):
            yield f"trainer.push_to_hub(dataset_name={self.settings.get('dataset_name')!r})"


def _mapping(value: Any) -> dict[str, Any]:
    """Return a mapping that on the command line is a JSON string."""
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            value = json.loads(value)
    return value if isinstance(value, dict) else {}


def _sources(values: Mapping[str, Any]) -> dict[str, str]:
    return {name: _source(value) for name, value in values.items()}


def _source(value: Any) -> str:
    """Return the source of a value that JSON can hold."""
    if isinstance(value, dict):
        return _bracketed("{", [f"{key!r}: {_source(item)}" for key, item in value.items()], "}")
    return _bracketed("[", [_source(item) for item in value], "]") if isinstance(value, list) else repr(value)


def _call(function: str, *arguments: str, **keywords: str) -> str:
    """Return the source of a call."""
    return _bracketed(f"{function}(", [*arguments, *(f"{name}={source}" for name, source in keywords.items())], ")")


def _bracketed(opening: str, parts: Sequence[str], closing: str) -> str:
    """Return the parts between brackets, each on a line of its own where one line would be long."""
    line = f"{opening}{', '.join(parts)}{closing}"
    if len(line) <= _WIDTH and "\n" not in line:
        return line
    lines = [f"    {line}" for part in parts for line in f"{part},".split("\n")]
    return "\n".join([opening, *lines, closing])
