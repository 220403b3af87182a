"""The secrets of a run's command: they are written nowhere, but handed to the supervisor in its environment."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping

import msgspec

from kerneltui.errors import KerneltuiError
from kerneltui.plan.secrets import HIDDEN, hide_variables, hide_words
from kerneltui.records import Record, to_json
from kerneltui.runs.directory import Command

# The variable in which a supervisor gets them; it does not pass it on.
HANDED = "KERNELTUI_SECRETS"
# What stands in a command in the place of a secret. Source: plan.secrets, text.hide_tokens.
_HIDDEN = re.compile(f"{HIDDEN}|hf_…")


class Secrets(Record):
    """What `command.json` does not hold: words of the command by their position, and variables by their name."""

    argv: dict[int, str] = {}
    environment: dict[str, str] = {}


def hidden_command(command: Command) -> Command:
    """Return the command as it may be written down, with `<hidden>` in the place of each secret."""
    return msgspec.structs.replace(
        command, argv=hide_words(command.argv), environment=hide_variables(command.environment)
    )


def handed(command: Command) -> dict[str, str]:
    """Return the variable that hands the secrets of a command to its supervisor; none where it has no secrets."""
    hidden = hidden_command(command)
    words = zip(command.argv, hidden.argv, strict=True)
    secrets = Secrets(
        argv={position: word for position, (word, shown) in enumerate(words) if word != shown},
        environment={name: value for name, value in command.environment.items() if value != hidden.environment[name]},
    )
    return {HANDED: to_json(secrets, indent=0).decode()} if secrets != Secrets() else {}


def whole_command(written: Command, environment: Mapping[str, str]) -> Command:
    """Return the command that `written` was, with its secrets as they were handed over in `environment`.

    A variable that was not handed over is taken from `environment` itself. Raises KerneltuiError where a secret is in
    neither: a command without it would train something else.
    """
    secrets = Secrets()
    with contextlib.suppress(msgspec.MsgspecError):
        secrets = msgspec.json.decode(environment.get(HANDED, "{}"), type=Secrets)
    command = msgspec.structs.replace(
        written,
        argv=tuple(secrets.argv.get(position, word) for position, word in enumerate(written.argv)),
        environment={
            name: secrets.environment.get(name, environment.get(name, value) if _HIDDEN.search(value) else value)
            for name, value in written.environment.items()
        },
    )
    missing = [name for name, value in command.environment.items() if _HIDDEN.search(value)]
    for before, word in zip(("", *command.argv), command.argv, strict=False):
        if _HIDDEN.search(word):
            missing.append(word.partition("=")[0] if word.startswith("--") else before)
    if missing:
        raise KerneltuiError(
            "secrets of its command are not written down",
            f"{', '.join(missing)} was known only to the supervisor that is gone",
            "Launch it again.",
        )
    return command
