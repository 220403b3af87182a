"""The plan: a trainer, the very configuration file that TRL reads, the flags after it, and how to launch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from kerneltui.errors import UsageError
from kerneltui.records import Document, Record


class Launch(Record):
    """How a run is started. `gpus` are indices in PCI bus order, None for all; `environment` adds to the person's."""

    name: str | None = None
    gpus: tuple[int, ...] | None = None
    environment: dict[str, str] = {}


class Plan(Document):
    """What is wanted. `config` is the text of the YAML file, kept as it is; `cwd` is what relative paths mean."""

    trainer: str
    cwd: str
    config: str | None = None
    config_path: str | None = None
    flags: tuple[str, ...] = ()
    launch: Launch = Launch()


def make_plan(trainer: str, arguments: list[str], *, cwd: Path | None = None, launch: Launch | None = None) -> Plan:
    """Return the plan of a command line `TRAINER [CONFIG] [TRL flags]`; `--config CONFIG` is understood as well.

    Raises UsageError when the file is not there, cannot be read, or does not hold a YAML mapping.
    """
    cwd = (cwd or Path.cwd()).absolute()
    flags = list(arguments)
    path: str | None = None
    if flags and not flags[0].startswith("-"):
        path = flags.pop(0)
    elif "--config" in flags:
        at = flags.index("--config")
        if at + 1 == len(flags):
            raise UsageError("--config needs a file", hint="Give the path of a TRL configuration file after it.")
        path = flags[at + 1]
        del flags[at : at + 2]
    config = read_config(cwd / Path(path).expanduser()) if path is not None else None
    return Plan(
        trainer=trainer,
        cwd=str(cwd),
        config=config,
        config_path=path,
        flags=tuple(flags),
        launch=launch or Launch(),
    )


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
    return content
