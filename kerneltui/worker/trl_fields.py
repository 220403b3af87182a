"""The fields of a trainer's configuration, from the installed TRL's own parser: types, defaults, choices, help."""

from __future__ import annotations

import collections.abc
import dataclasses
import enum
import re
import types
import typing
from typing import Any

from .library_tables import every_trainer
from .rewards import trl_functions
from .trl_adapter import jsonable, make_parser

# The word for a field that takes several kinds of values: the first of these that it takes.
_MAIN = ("list", "mapping", "int", "float", "str", "bool")
_VALUES = re.compile(
    r"(?:[Pp]ossible values are|[Ss]upported values are|[Oo]ptions|[Mm]ust be one of)[: ]+(.*?)(?:\.\s|\.$|$)"
)


def fields(trainer: str) -> dict[str, Any]:
    """Return `{config_class, fields}` of a trainer; each field as `kerneltui.plan.fields.Field` has it.

    `trainers`, and nothing else, when there is no such trainer.
    """
    if trainer not in (known := every_trainer()):
        return {"trainers": known}
    parser = make_parser(trainer)
    actions: dict[str, Any] = {}
    for action in parser._actions:
        actions.setdefault(action.dest, action)  # the `--no_…` twin of a switch comes second
    config = next(kind for kind in parser.dataclass_types if hasattr(kind, "world_size"))
    found = [
        _field(kind, field.name, hint, actions[field.name], config)
        for kind in parser.dataclass_types
        for field, hint in _hints(kind)
        if field.name in actions
    ]
    return {"config_class": config.__name__, "fields": found}


def _hints(kind: Any) -> list[tuple[Any, Any]]:
    hints = typing.get_type_hints(kind)
    return [(field, hints[field.name]) for field in dataclasses.fields(kind) if field.init]


def _field(kind: Any, name: str, hint: Any, action: Any, config: Any) -> dict[str, Any]:
    help_text = " ".join(str(action.help or "").replace("%%", "%").split())
    kinds = list(dict.fromkeys(_kinds(hint)))
    if "mapping" in kinds and "path" not in help_text.lower():
        kinds = ["mapping"]  # text is for JSON on the command line, where it is no path of a file
    default = action.default
    if getattr(action.type, "__name__", "") == "string_to_bool":  # whatever its annotation says
        kinds, default = ["bool"], action.type(default) if isinstance(default, str) else default
    choices = [jsonable(name, choice) for choice in action.choices] if action.choices else []
    return {
        "name": name,
        "owner": kind.__name__,
        "type": "choice" if choices else next(word for word in _MAIN if word in kinds),
        "kinds": kinds,
        "items": _items(hint),
        "optional": type(None) in typing.get_args(hint) or action.default is None,
        "default": jsonable(name, default),
        "choices": choices,
        "suggestions": [] if choices else trl_functions() if name == "reward_funcs" else _suggestions(help_text),
        "help": help_text,
        "own": kind is config and name not in _common(config),
    }


def _common(config: Any) -> set[str]:
    """Return the fields that every trainer has from transformers."""
    base = next(kind for kind in config.__mro__ if kind.__name__ == "TrainingArguments")
    return {field.name for field in dataclasses.fields(base)}


def _kinds(hint: Any) -> list[str]:
    """Return the words for what an annotation takes, None left out; what is not known counts as text."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return [word for argument in arguments if argument is not type(None) for word in _kinds(argument)]
    if origin is typing.Literal:
        return [word for value in arguments for word in _kinds(type(value))]
    kind = origin or hint
    if not isinstance(kind, type) or issubclass(kind, enum.Enum):
        return ["str"]
    if issubclass(kind, collections.abc.Mapping) or dataclasses.is_dataclass(kind):
        return ["mapping"]
    if issubclass(kind, (list, tuple)):
        return ["list"]
    return [next((word.__name__ for word in (bool, int, float) if issubclass(kind, word)), "str")]


def _items(hint: Any) -> str | None:
    """Return the word for the elements of a list, None where it takes none."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return next((word for argument in arguments if (word := _items(argument))), None)
    if isinstance(origin, type) and issubclass(origin, (list, tuple)) and arguments:
        return _kinds(arguments[0])[0]
    return None


def _suggestions(text: str) -> list[str]:
    """Return the values that a help text lists in quotes; TRL checks them later than its parser would."""
    found = _VALUES.search(text)
    return list(dict.fromkeys(re.findall(r"[`'\"]+([\w|/-]+)[`'\"]+", found[1]))) if found else []


HANDLERS = {"trl.fields": fields}
