"""What a person types as the value of a field, and values as a person would type them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from typing import Any

import yaml

from kerneltui.errors import UsageError
from kerneltui.plan.fields import Field
from kerneltui.text import did_you_mean, plain

_TRUE = ("true", "yes", "on", "y", "t", "1")
_FALSE = ("false", "no", "off", "n", "f", "0")
_NOTHING = ("null", "~")


def parse_value(field: Field, text: str) -> Any:
    """Return what a person typed as the value for the YAML file. Raises UsageError that names what the field takes.

    Nothing, `null` and `~` are null where the field takes it; `none` too, where it is no value of its own.
    """
    text = plain(text).strip()
    free_text = "str" in field.kinds and not field.choices
    nothing = _NOTHING if free_text or "none" in field.choices else (*_NOTHING, "none")
    if not text or text.lower() in nothing:
        if not field.optional:
            raise _refused(field, text or "nothing")
        return None
    try:
        return _PARSERS[field.type](field, text)
    except (ValueError, OverflowError, RecursionError, yaml.YAMLError):
        raise _refused(field, text) from None


def value_text(value: Any) -> str:
    """Return a value as a person would type it, so that `parse_value` gives the same value again."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)) and len(value) > 1 and all(_is_word(item) for item in value):
        return ", ".join(map(str, value))
    return str(value) if isinstance(value, (str, int, float)) else _flow(value)


def _refused(field: Field, text: str) -> UsageError:
    near = did_you_mean(text, map(str, field.choices)) if field.choices else ""
    default = "null" if field.default is None else value_text(field.default)
    return UsageError(
        f"{field.name} cannot be {plain(text)}",
        f"It takes {field.takes}.",
        near or f"TRL's default is {default or 'an empty list'}.",
    )


def _bool(text: str) -> bool:
    lowered = text.lower()
    if lowered in _TRUE:
        return True
    if lowered in _FALSE:
        return False
    raise ValueError(text)


def _int(text: str) -> int:
    """Return a whole number; 1e3 and 8.0 are some too."""
    try:
        return int(text)
    except ValueError:
        number = float(text)
        if number != int(number):
            raise
        return int(number)


def _float(text: str) -> float:
    """Return a number; one written without a point stays whole, as `save_steps: 500` is written."""
    if re.fullmatch(r"[+-]?\d{1,15}", text):
        return int(text)
    return _finite(float(text))


def _finite(number: float) -> float:
    if number - number != 0:  # NaN and the infinities are no settings
        raise ValueError(number)
    return number


_SCALARS: dict[str, Callable[[str], Any]] = {"bool": _bool, "int": _int, "float": _float, "str": str}


def _scalar(field: Field, text: str) -> Any:
    """Return the value of the field's own type, or of another that it takes."""
    if field.type == "str" and "bool" in field.kinds and text.lower() in ("true", "false"):
        return _bool(text)
    try:
        return _SCALARS[field.type](text)
    except (ValueError, OverflowError):
        if "str" not in field.kinds:
            raise
        return text


def _choice(field: Field, text: str) -> Any:
    exact = [choice for choice in field.choices if str(choice) == text]
    close = [choice for choice in field.choices if str(choice).lower() == text.lower()]
    if not exact and not close:
        raise ValueError(text)
    return (exact or close)[0]


def _list(field: Field, text: str) -> Any:
    if text.startswith("["):
        texts = field.items in (None, "str")
        items = _load(text, yaml.BaseLoader if texts else _Loader)
        if not isinstance(items, list):
            raise ValueError(text)
        return [_item(field, item) for item in items]
    words = [word.strip() for word in (text.split(",") if "," in text else text.split())]
    if field.items == "mapping":
        raise ValueError(text)
    if "str" in field.kinds and len(words) == 1:
        return words[0]
    return [_SCALARS[field.items or "str"](word) for word in words if word]


def _item(field: Field, item: Any) -> Any:
    """Return an element of a YAML list as the field's elements are."""
    if isinstance(item, dict) != (field.items == "mapping") or isinstance(item, list) or item is None:
        raise ValueError(item)
    return item if isinstance(item, dict) else _SCALARS[field.items or "str"](str(item))


def _mapping(field: Field, text: str) -> Any:
    """Return the mapping, also one written without its braces; else the text, where the path of a file will do."""
    if text.startswith("{"):
        value = _load(text)
        if not isinstance(value, dict):
            raise ValueError(text)
        return value
    with contextlib.suppress(ValueError, yaml.YAMLError):
        value = _load(f"{{{text}}}")
        if isinstance(value, dict) and None not in value.values():
            return value
    if "str" not in field.kinds:
        raise ValueError(text)
    return text


class _Loader(yaml.SafeLoader):
    """Reads 2e-5 as the number that it is, which PyYAML takes for text."""


class _Dumper(yaml.SafeDumper):
    """Writes what `_Loader` reads: it puts the text 2e-5 in quotes."""


for _kind in (_Loader, _Dumper):
    _kind.add_implicit_resolver(
        "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+(?:\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
    )


def _load(text: str, loader: type[Any] = _Loader) -> Any:
    value = yaml.load(text, Loader=loader)
    _check(value)
    return value


def _check(value: Any) -> None:
    """Raise ValueError for what YAML can hold and a setting cannot: dates, bytes, NaN, other keys than text.

    Nor control characters, not all of which PyYAML writes so that it reads them again.
    """
    if isinstance(value, str):
        if plain(value) != value:
            raise ValueError(value)
    elif isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise ValueError(value)
        for item in (*value, *value.values()):
            _check(item)
    elif isinstance(value, list):
        for item in value:
            _check(item)
    elif isinstance(value, float):
        _finite(value)
    elif value is not None and not isinstance(value, int):
        raise ValueError(value)


def _flow(value: Any) -> str:
    """Return a value as YAML on one line."""
    text = yaml.dump(value, Dumper=_Dumper, default_flow_style=True, allow_unicode=True, width=2**31, sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...")


def _is_word(item: Any) -> bool:
    """Whether an element can stand between commas without quotes."""
    if isinstance(item, str):
        return bool(re.fullmatch(r"[\w./*@-]+", item))
    return isinstance(item, (int, float)) and not isinstance(item, bool)


_PARSERS: dict[str, Callable[[Field, str], Any]] = {
    **dict.fromkeys(("bool", "int", "float", "str"), _scalar),
    "choice": _choice,
    "list": _list,
    "mapping": _mapping,
}
