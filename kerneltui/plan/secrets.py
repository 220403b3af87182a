"""Tokens, keys and passwords that a person wrote into a plan, and the plan without them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from kerneltui.plan.edit import edit_config
from kerneltui.plan.plan import Plan, file_variables, parse_config
from kerneltui.text import hide_tokens

HIDDEN = "<hidden>"

# How names of secrets end: hub_token, HF_TOKEN, WANDB_API_KEY, … Of TRL's own fields two that end so are none.
_SECRET = re.compile(r"(?<!eos_)(?<!pad_)token$|(api_key|access_key|secret|password)$", re.IGNORECASE)


def is_secret(name: str) -> bool:
    """Return whether a field, flag or variable of that name holds a token, a key or a password."""
    return _SECRET.search(name.replace("-", "_")) is not None


def without_secrets(plan: Plan) -> Plan:
    """Return the plan with `<hidden>` in the place of each secret: in its flags, its configuration, its environment.

    Tokens of the Hub are hidden wherever they stand, a comment too. It is for records and reports; what trains needs
    the plan itself. Raises UsageError where the configuration is no YAML mapping.
    """
    environment = {name: HIDDEN if is_secret(name) else value for name, value in plan.launch.environment.items()}
    return msgspec.structs.replace(
        plan,
        config=None if plan.config is None else _without_secrets(plan.config),
        flags=tuple(_flags(plan.flags)),
        launch=msgspec.structs.replace(plan.launch, environment=environment),
    )


def _flags(flags: Sequence[str]) -> Iterator[str]:
    rest = iter(flags)
    for flag in rest:
        name, equals, _ = flag.partition("=")
        if not (name.startswith("--") and is_secret(name)):
            yield hide_tokens(flag)
            continue
        yield f"{name}={HIDDEN}" if equals else name
        if not equals and next(rest, None) is not None:
            yield HIDDEN


def _without_secrets(config: str) -> str:
    variables, written = file_variables(config), parse_config(config, "the configuration")
    changes: dict[str, Any] = {name: HIDDEN for name, value in written.items() if value and is_secret(name)}
    if any(is_secret(name) for name in variables):
        changes["env"] = {name: HIDDEN if is_secret(name) else value for name, value in variables.items()}
    return hide_tokens(edit_config(config, changes))
