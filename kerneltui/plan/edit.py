"""Editing a TRL configuration as text: only what changes is touched, comments and order stay."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from kerneltui.plan.plan import parse_config


def edit_config(text: str, values: Mapping[str, Any], remove: Iterable[str] = ()) -> str:
    """Return the configuration with top-level keys set to `values` (None writes null) and those in `remove` gone.

    A key that is there keeps its place and the comment behind it; a new one comes at the end. Where nothing changes the
    text is the same. Raises UsageError when `text` is no YAML mapping.
    """
    present = _parse(text)
    if text.lstrip().startswith("{"):  # all in braces: its lines are not its keys
        text = yaml.safe_dump(present, allow_unicode=True, sort_keys=False) if present else ""
    for key in remove:
        if key in present:
            text = _without(text, key)
    for key, value in values.items():
        if key in present and key not in remove:
            if present[key] != value or type(present[key]) is not type(value):
                text = _replaced(text, key, value)
        else:
            text += "\n" if text and not text.endswith("\n") else ""
            text += f"{key}: {_flow(value)}\n"
    return text


def split_changes(changes: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return changes as the keys to set and those to remove, which have the value None."""
    return {key: value for key, value in changes.items() if value is not None}, tuple(
        key for key, value in changes.items() if value is None
    )


def _parse(text: str) -> dict[str, Any]:
    """Return the settings of a configuration, none for one that is empty or has comments only."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return parse_config(text, "the configuration") if lines else {}


def _replaced(text: str, key: str, value: Any) -> str:
    name, node = _entry(text, key)
    colon = text.index(":", name.end_mark.index)
    return f"{text[: colon + 1]} {_flow(value)}{text[_end(node) :]}"


def _without(text: str, key: str) -> str:
    name, node = _entry(text, key)
    start = name.start_mark.index
    line_end = text.find("\n", _end(node))
    return text[:start] + (text[line_end + 1 :] if line_end >= 0 else "")


def _entry(text: str, key: str) -> tuple[Any, Any]:
    """Return the nodes of a top-level key and its value, with their places in the text."""
    root: Any = yaml.compose(text, Loader=yaml.SafeLoader)
    return next((name, node) for name, node in root.value if name.value == key)


def _end(node: Any) -> int:
    """Return where a value ends: a block ends with its last scalar, not where the next key begins."""
    if isinstance(node, yaml.ScalarNode) or node.flow_style or not node.value:
        end = node.end_mark.index
        # A block scalar (| or >) ends at the next line: leave its line break in place.
        return int(end) - 1 if isinstance(node, yaml.ScalarNode) and node.style in ("|", ">") else int(end)
    last = node.value[-1]
    return _end(last[1] if isinstance(last, tuple) else last)


def _flow(value: Any) -> str:
    """Return a value on one line."""
    style = '"' if isinstance(value, str) and "\n" in value else None
    text = _dump(value, style)
    # YAML takes these for line breaks too, and PyYAML writes them into quotes as they are.
    if any(line_break in text for line_break in "\x85\u2028\u2029"):
        text = _dump(value, '"', allow_unicode=False)
    return text.removesuffix("\n").removesuffix("\n...")


def _dump(value: Any, style: str | None, *, allow_unicode: bool = True) -> str:
    return yaml.safe_dump(
        value,
        default_flow_style=True,
        default_style=style,
        allow_unicode=allow_unicode,
        width=math.inf,
        sort_keys=False,
    )
