"""Tokens, keys and passwords that a person wrote into a plan, and the plan without them."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from kerneltui.plan.edit import edit_config
from kerneltui.plan.plan import Plan, parse_config
from kerneltui.text import hide_tokens

HIDDEN = "<hidden>"

# How names of secrets end: hub_token, HF_TOKEN, WANDB_API_KEY, … Of TRL's own fields two that end so are none.
_SECRET = re.compile(r"(?<!eos_)(?<!pad_)token$|(api_key|access_key|secret|password)$", re.IGNORECASE)


def is_secret(name: str) -> bool:
    """Return whether a field, flag or variable of that name holds a token, a key or a password."""
    return _SECRET.search(name.replace("-", "_")) is not None


def secret_names(values: Mapping[str, Any], inside: str = "") -> Iterator[str]:
    """Give the names of what is secret in a mapping; of mappings in it with the outer name and a dot before them."""
    for name, value in values.items():
        if _holds_secret(name, value):
            yield f"{inside}{name}"
        elif isinstance(value, Mapping):
            yield from secret_names(value, f"{inside}{name}.")


def leave_out(value: Any) -> Any:
    """Return a value without the secrets in it, those of mappings and lists inside of it too."""
    if isinstance(value, Mapping):
        return {name: leave_out(inner) for name, inner in value.items() if not _holds_secret(name, inner)}
    return [leave_out(inner) for inner in value] if isinstance(value, list | tuple) else value


def hide(value: Any) -> Any:
    """Return a value with `<hidden>` in the place of each secret, those of mappings and lists inside of it too."""
    if isinstance(value, Mapping):
        return {name: HIDDEN if _holds_secret(name, inner) else hide(inner) for name, inner in value.items()}
    return [hide(inner) for inner in value] if isinstance(value, list | tuple) else value


def hide_words(words: Sequence[str]) -> tuple[str, ...]:
    """Return the words of a command line, as many as before, with the secrets among them hidden."""
    return tuple(_hidden_words(words))


def hide_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Return variables with the secrets among them hidden."""
    return {name: hide_tokens(value) for name, value in hide(variables).items()}


def without_secrets(plan: Plan) -> Plan:
    """Return the plan with `<hidden>` in the place of each secret: in its flags, its configuration, its environment.

    Tokens of the Hub are hidden wherever they stand, a comment too. It is for records and reports; what trains needs
    the plan itself. Raises UsageError where the configuration is no YAML mapping.
    """
    return msgspec.structs.replace(
        plan,
        config=None if plan.config is None else _without_secrets(plan.config),
        flags=hide_words(plan.flags),
        launch=msgspec.structs.replace(plan.launch, environment=hide_variables(plan.launch.environment)),
    )


def _holds_secret(name: object, value: object) -> bool:
    """Whether a setting holds a secret: a token that is `true` only says that the login of the machine is meant."""
    return bool(value) and not isinstance(value, bool | Mapping | list) and is_secret(str(name))


def _hidden_words(words: Sequence[str]) -> Iterator[str]:
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        if not (name.startswith("--") and is_secret(name)):
            yield f"{name}={_hidden_word(value)}" if equals and name.startswith("--") else _hidden_word(word)
            continue
        yield f"{name}={HIDDEN}" if equals else name
        if not equals and next(rest, None) is not None:
            yield HIDDEN


def _hidden_word(word: str) -> str:
    """Return a word without the secrets in it: one may be a mapping in JSON, such as that of `model_init_kwargs`."""
    if word.startswith(("{", "[")):
        with contextlib.suppress(ValueError):
            found = json.loads(word)
            word = word if (hidden := hide(found)) == found else json.dumps(hidden, ensure_ascii=False)
    return hide_tokens(word)


def _without_secrets(config: str) -> str:
    written = parse_config(config, "the configuration")
    hidden = hide(written)
    return hide_tokens(edit_config(config, {name: hidden[name] for name in written if hidden[name] != written[name]}))
