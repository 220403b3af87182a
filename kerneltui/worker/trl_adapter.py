"""The one adapter over TRL's command line: what its own parser makes of a configuration file and flags.

Mirrors `trl.cli.commands.training.TrainingCommand.run`, without building the configuration classes first, because
they look at this process's hardware; `tests/worker/test_trl_adapter.py` holds it against the real command.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import importlib
import os
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Fields whose validity depends on the hardware of the process that builds the class; the asker sees no GPU.
_HARDWARE_FIELDS = {"use_cpu": True, "tf32": None}


def parse(trainer: str, config: str | None, flags: list[str], cwd: str, processes: int | None = None) -> dict[str, Any]:
    """Return what TRL's parser makes of a YAML file's path and flags: values, unknown keys, errors, arguments.

    `launch_arguments` go to `accelerate launch`, `--config` and `script_flags` to the training script. `processes` is
    the number of processes that will train; None takes accelerate's `num_processes` argument, else 1. `error` is set,
    and nothing else, when the parser itself refuses.
    """
    parser = _make_parser(trainer)
    arguments = (["--config", config] if config else []) + flags
    try:
        with _kept_environment(), _directory(cwd):
            namespace, given, config_remaining, cli_remaining = _parse(parser, arguments)
            launch_arguments = _resolve_accelerate(config_remaining + cli_remaining)
    except (ValueError, SystemExit) as error:
        return {"error": str(error)}
    values = {name: _jsonable(name, value) for name, value in vars(namespace).items()}
    unknown, accelerate_values = _accelerate(launch_arguments)
    count = processes or int(accelerate_values.get("num_processes") or 1)
    return {
        "values": values,
        "given": sorted(given),
        "config_class": next(kind.__name__ for kind in parser.dataclass_types if hasattr(kind, "world_size")),
        "owners": {field.name: kind.__name__ for kind in parser.dataclass_types for field in dataclasses.fields(kind)},
        "unknown": unknown,
        "accelerate": accelerate_values,
        "errors": _build(parser, vars(namespace), count),
        "launch_arguments": launch_arguments,
        "script_flags": _subtract(flags, cli_remaining),
    }


def _make_parser(trainer: str) -> Any:
    parser = importlib.import_module(f"trl.scripts.{trainer}").make_parser(prog=f"trl {trainer}")

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
        if not isinstance(config.pop("env", {}), dict):
            raise ValueError("`env` in the configuration file must be a mapping of names to values")
    config_remaining = parser.set_defaults_with_config(**config)
    namespace, cli_remaining = parser.parse_known_args(arguments)
    options = parser._option_string_actions
    given = {options[flag].dest for flag in (a.split("=")[0] for a in arguments) if flag in options}
    given |= {key for key in config if hasattr(namespace, key)}
    return namespace, given, config_remaining, cli_remaining


def _resolve_accelerate(arguments: list[str]) -> list[str]:
    from trl.cli.accelerate_config import resolve_accelerate_config_argument

    return [str(argument) for argument in resolve_accelerate_config_argument(arguments)]


def _subtract(arguments: list[str], remaining: list[str]) -> list[str]:
    from trl.cli.commands.training import _subtract_subsequence

    return list(_subtract_subsequence(arguments, remaining))


def _accelerate(arguments: list[str]) -> tuple[list[str], dict[str, Any]]:
    """Return the names that not even `accelerate launch` knows, and the values of those that it does."""
    from accelerate.commands.launch import launch_command_parser

    parser = launch_command_parser()
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
    given = {a.split("=")[0].lstrip("-").replace("-", "_") for a in known if a.startswith("--")}
    return unknown, {name: value for name, value in vars(namespace).items() if name in given}


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


def _jsonable(name: str, value: Any) -> Any:
    if name.endswith("token") and name != "eos_token" and name != "pad_token" and value:
        return "<hidden>"
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, dict):
        return {str(key): _jsonable(str(key), item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(name, item) for item in value]
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
def _directory(path: str) -> Iterator[None]:
    """Be in another directory for a while (`contextlib.chdir` came with Python 3.11)."""
    before = Path.cwd()
    os.chdir(path)
    try:
        yield
    finally:
        os.chdir(before)


def prepare() -> None:
    """Import what `parse` needs; the answer is nothing."""
    _make_parser("sft")


HANDLERS = {"trl.parse": parse, "trl.prepare": prepare}
