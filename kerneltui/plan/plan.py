"""The plan: a trainer, the very configuration file that TRL reads, the flags after it, and how to launch."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from kerneltui.errors import UsageError
from kerneltui.records import Document, Record


class Launch(Record):
    """How a run is started. `gpus` are indices in PCI bus order, None for all; `environment` adds to the person's.

    `on_alert` is a shell command of the person that is run at each alert.
    """

    name: str | None = None
    gpus: tuple[int, ...] | None = None
    environment: dict[str, str] = {}
    on_alert: str | None = None


class Plan(Document):
    """What is wanted. `config` is the text of the YAML file, kept as it is; `cwd` is what relative paths mean."""

    trainer: str
    cwd: str
    config: str | None = None
    config_path: str | None = None
    flags: tuple[str, ...] = ()
    launch: Launch = Launch()

    @property
    def environment(self) -> dict[str, str]:
        """What the run sees beside the person's variables: those of the file's `env` mapping, then those of the launch.

        TRL sets that mapping before accelerate starts (`trl.scripts.utils.TrlParser.parse_args_and_config`). A file or
        a mapping that cannot be read gives none; `read_settings` says why.
        """
        written = file_variables(self.config)
        return {**{name: str(value) for name, value in written.items()}, **self.launch.environment}


@functools.lru_cache(maxsize=8)
def file_variables(config: str | None) -> Mapping[str, Any]:
    """Return the `env` mapping of a configuration's text as it is written there; empty where there is none."""
    written: object = None
    with contextlib.suppress(UsageError):
        written = parse_config(config, "the configuration").get("env") if config is not None else None
    variables = written if isinstance(written, dict) else {}
    return {name: value for name, value in variables.items() if isinstance(name, str)}


def make_plan(trainer: str, arguments: list[str], *, cwd: Path | None = None, launch: Launch | None = None) -> Plan:
    """Return the plan of a command line `TRAINER [CONFIG] [TRL flags]`; `--config CONFIG` is understood as well.

    Raises UsageError when the file is not there, cannot be read, or does not hold a YAML mapping.
    """
    cwd = (cwd or Path.cwd()).absolute()
    path, flags = _split(arguments)
    config = read_config(cwd / Path(path).expanduser()) if path is not None else None
    return Plan(
        trainer=trainer,
        cwd=str(cwd),
        config=config,
        config_path=path,
        flags=tuple(flags),
        launch=launch or Launch(),
    )


def _split(arguments: list[str]) -> tuple[str | None, list[str]]:
    """Return the configuration's path and the flags."""
    flags: list[str] = []
    paths = arguments[:1] if arguments and not arguments[0].startswith("-") else []
    rest = iter(arguments[len(paths) :])
    for argument in rest:
        name, equals, value = argument.partition("=")
        if name != "--config":
            flags.append(argument)
        elif found := value if equals else next(rest, ""):
            paths.append(found)
        else:
            raise UsageError("--config needs a file", hint="Give the path of a TRL configuration file after it.")
    if len(paths) > 1:
        raise UsageError(
            "Two configuration files are given",
            f"{paths[0]} and {paths[1]}; TRL reads one.",
            "Give one file, and flags for what it does not say.",
        )
    return (paths[0] if paths else None), flags


def read_config(path: Path) -> str:
    """Return the text of a TRL configuration file after checking that it is a YAML mapping. Raises UsageError."""
    try:
        text = path.read_bytes().decode("utf-8")
    except OSError as error:
        raise UsageError(
            f"Cannot read {path}",
            error.strerror or str(error),
            "Give the path of a TRL configuration file (YAML).",
        ) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text", str(error), "Save it as UTF-8.") from error
    parse_config(text, str(path))
    return text


def parse_config(text: str, source: str) -> dict[str, Any]:
    """Return the mapping that a configuration's text holds. Raises UsageError with line and column."""
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        problem = getattr(error, "problem", None) or str(error)
        raise UsageError(f"{source} is not YAML", f"{where}{problem}", "Correct that line.") from error
    if not isinstance(content, dict):
        raise UsageError(
            f"{source} holds no settings",
            "A TRL configuration is a mapping: one `key: value` a line.",
            "Correct the file.",
        )
    for key in content:
        if not isinstance(key, str):
            raise UsageError(
                f"{source} has a key that is not text",
                f"YAML reads it as {key!r}.",
                "Write the name of a setting, in quotes where YAML takes it for something else (on, off, yes, no).",
            )
    return content
