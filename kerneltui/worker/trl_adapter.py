"""The one adapter over TRL's command line: what its own parser makes of a configuration file and flags.

Mirrors `trl.cli.commands.training.TrainingCommand.run`, without building the configuration classes first, because
they look at this process's hardware; `tests/worker/test_trl_adapter.py` holds it against the real command.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import enum
import importlib
import os
import re
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from . import experimental
from .library_tables import every_trainer

# Fields whose validity depends on the hardware of the process that builds the class; the asker sees no GPU.
_HARDWARE_FIELDS = {"use_cpu": True, "tf32": None}

# The ways in which accelerate starts more than one process; without any of them it runs the script alone.
_LAUNCHERS_OF_MANY = ("multi_gpu", "use_deepspeed", "use_fsdp", "use_megatron_lm", "tpu")


def parse(
    trainer: str, config: str | None, flags: list[str], cwd: str, devices: int = 0, elsewhere: bool = False
) -> dict[str, Any]:
    """Return what TRL's parser makes of a YAML file's path and flags: values, unknown keys, errors, arguments.

    `launch_arguments` go to `accelerate launch`, `--config` and `script_flags` to the training script; `processes` is
    the number of processes that `accelerate launch` would start where torch sees `devices` GPUs, on all `machines`
    together. `elsewhere` tells that this is another machine, with files that are not here. `error` is set, and nothing
    else, when a parser itself refuses; `trainers`, and nothing else, when there is no such trainer.
    """
    if trainer not in (known := every_trainer()):
        return {"trainers": known}
    parser = make_parser(trainer)
    arguments = (["--config", config] if config else []) + flags
    try:
        with _kept_environment(), directory(cwd):
            namespace, given, config_remaining, cli_remaining = _parse(parser, arguments)
            launch_arguments = _resolve_accelerate(config_remaining + cli_remaining)
            unknown, accelerate_arguments = _accelerate(launch_arguments)
            processes, machines = count_processes(accelerate_arguments, devices, elsewhere)
    except (ValueError, SystemExit) as error:
        return {"error": str(error)}
    values = {name: jsonable(name, value) for name, value in vars(namespace).items()}
    return {
        "values": values,
        "given": sorted(given),
        "config_class": next(kind.__name__ for kind in parser.dataclass_types if hasattr(kind, "world_size")),
        "owners": {field.name: kind.__name__ for kind in parser.dataclass_types for field in dataclasses.fields(kind)},
        "unknown": unknown,
        "accelerate": _given(accelerate_arguments),
        "processes": processes,
        "machines": machines,
        "errors": _build(parser, vars(namespace), processes),
        "launch_arguments": launch_arguments,
        "script_flags": _subtract(flags, cli_remaining),
    }


def make_parser(trainer: str) -> Any:
    """Return TRL's parser of a trainer's command, made to raise ValueError where it would print and exit."""
    if experimental.is_experimental(trainer):
        return _refusing(experimental.make_parser(trainer))
    return _refusing(importlib.import_module(f"trl.scripts.{trainer}").make_parser(prog=f"trl {trainer}"))


def _refusing(parser: Any) -> Any:
    """Return the parser, made to raise ValueError where it would print and exit."""

    def refuse(message: str) -> None:
        raise ValueError(message)

    parser.error = refuse
    return parser


def _parse(parser: Any, arguments: list[str]) -> tuple[Any, set[str], list[str], list[str]]:
    """Do the steps of `TrlParser.parse_args_and_config` up to the namespace of plain values."""
    import yaml

    arguments = list(arguments)
    config: dict[str, Any] = {}
    if "--config" in arguments:
        at = arguments.index("--config")
        config = yaml.safe_load(Path(arguments[at + 1]).read_text(encoding="utf-8"))
        del arguments[at : at + 2]
        if not isinstance(config, dict):
            raise ValueError("the configuration file must hold a YAML mapping (key: value lines)")
        _check_variables(config.pop("env", {}))
    config_remaining = parser.set_defaults_with_config(**config)
    namespace, cli_remaining = parser.parse_known_args(arguments)
    written = [argument.split("=")[0] for argument in arguments if argument.startswith("--")]
    given = {action.dest for flag in written for action in _actions(parser, flag)}
    given |= {key for key in config if hasattr(namespace, key)}
    return namespace, given, config_remaining, cli_remaining


def _check_variables(variables: Any) -> None:
    """Raise ValueError where TRL could not put a configuration's `env` mapping into its environment."""
    if not isinstance(variables, dict):
        raise ValueError("`env` in the configuration file must be a mapping of names to values")  # noqa: TRY004
    for name, value in variables.items():
        if not isinstance(name, str) or not name or "=" in name or "\0" in f"{name}{value}":
            raise ValueError(f"`env` in the configuration file: {name!r} cannot be set as an environment variable")


def _actions(parser: Any, flag: str) -> list[Any]:
    """Return the field that a flag sets; argparse also takes the beginning of a name that only one field has."""
    known = parser._option_string_actions.get(flag)
    return [known] if known else [match[0] for match in parser._get_option_tuples(flag)]


def _resolve_accelerate(arguments: list[str]) -> list[str]:
    from trl.cli.accelerate_config import resolve_accelerate_config_argument

    return [str(argument) for argument in resolve_accelerate_config_argument(arguments)]


def _subtract(arguments: list[str], remaining: list[str]) -> list[str]:
    from trl.cli.commands.training import _subtract_subsequence

    return list(_subtract_subsequence(arguments, remaining))


def _accelerate(arguments: list[str]) -> tuple[list[str], Any]:
    """Return the names that not even `accelerate launch` knows, and the rest as its parser reads it.

    Raises ValueError for a value that accelerate refuses, and for one that stands alone.
    """
    from accelerate.commands.launch import launch_command_parser

    parser = _refusing(launch_command_parser())
    unknown, known = [], []
    keep = True
    for argument in arguments:
        if argument.startswith("--"):
            name = argument.split("=")[0]
            keep = name in parser._option_string_actions
            if not keep:
                unknown.append(name[2:])
        if keep:
            known.append(argument)
    namespace, _ = parser.parse_known_args([*known, "script.py"])
    stray = namespace.training_script
    if stray not in ("script.py", "True", "False"):  # accelerate would take it for the script
        raise ValueError(f"{stray!r} is neither a flag nor the value of one")
    namespace.given = {a.split("=")[0].lstrip("-").replace("-", "_") for a in known if a.startswith("--")}
    return unknown, namespace


def _given(arguments: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(arguments).items() if name in arguments.given}


def count_processes(arguments: Any, devices: int, elsewhere: bool = False) -> tuple[int, int]:
    """Return how many processes `accelerate launch` starts where torch sees `devices` GPUs, and on how many machines.

    Its own first step decides: the argument, else its configuration file (that of `--config_file`, or its default one),
    else one for each GPU. Raises ValueError where accelerate would stop there.
    """
    from accelerate.commands import launch

    decide = getattr(launch, "_validate_launch_command", None)
    simple = int(arguments.num_processes or devices or 1), int(arguments.num_machines or 1)
    if decide is None:
        return simple
    # Its torch is replaced, since the asker sees no GPU.
    cuda = types.SimpleNamespace(device_count=lambda: devices, is_available=lambda: devices > 0)
    seen: dict[str, Any] = {
        "torch": types.SimpleNamespace(cuda=cuda),
        **({"default_config_file": ""} if elsewhere else {}),
    }
    asked = copy.copy(arguments)
    try:
        with mock.patch.multiple(launch, **seen):
            decide(asked)
    except Exception as error:
        if elsewhere and isinstance(error, OSError):  # its configuration file is on that machine
            return simple
        raise ValueError(f"accelerate launch refuses: {error}") from error
    many = any(getattr(asked, name, False) for name in _LAUNCHERS_OF_MANY)
    return (int(asked.num_processes or 1), int(asked.num_machines or 1)) if many and not asked.cpu else (1, 1)


def _build(parser: Any, values: dict[str, Any], processes: int) -> list[dict[str, Any]]:
    """Build TRL's configuration classes from the values; return the errors that they raise."""
    errors = []
    for kind in parser.dataclass_types:
        fields = {field.name for field in dataclasses.fields(kind) if field.init}
        inputs = {name: value for name, value in values.items() if name in fields}
        if hasattr(kind, "world_size"):
            inputs |= {name: value for name, value in _HARDWARE_FIELDS.items() if name in fields}
            # Divisibility rules use the number of processes, which is one here.
            kind = type(kind.__name__, (kind,), {"world_size": property(lambda _: processes)})
        try:
            with warnings.catch_warnings(), _kept_environment():
                warnings.simplefilter("ignore")
                kind(**inputs)
        except Exception as error:  # noqa: BLE001 - whatever TRL raises is what the person must know
            message = str(error)
            named = [word for word in re.findall(r"\w+", message) if word in fields]
            errors.append({"type": type(error).__name__, "message": message, "field": named[0] if named else None})
    return errors


def jsonable(name: str, value: Any) -> Any:
    """Return the value of a field as JSON can hold it; a token is not told."""
    if name.endswith("token") and name != "eos_token" and name != "pad_token" and value and isinstance(value, str):
        return "<hidden>"
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, dict):
        return {str(key): jsonable(str(key), item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(name, item) for item in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)


@contextlib.contextmanager
def _kept_environment() -> Iterator[None]:
    """Undo what a configuration's `env` mapping or a class does to the environment of this process."""
    before = dict(os.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextlib.contextmanager
def directory(path: str) -> Iterator[None]:
    """Be in another directory for a while (`contextlib.chdir` came with Python 3.11)."""
    before = Path.cwd()
    os.chdir(path)
    try:
        yield
    finally:
        os.chdir(before)


def prepare() -> None:
    """Import what `parse` needs; the answer is nothing."""
    make_parser("sft")


HANDLERS = {"trl.parse": parse, "trl.prepare": prepare}
