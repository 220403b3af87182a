"""What all forms of a plan share: its variables, its secrets, and the comments on what they leave out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from kerneltui.plan.plan import Plan, parse_config
from kerneltui.plan.secrets import hide_words, is_secret

__all__ = [
    *(
        "commented",
        "configuration",
        "configuration_file",
        "environment",
        "is_secret",
        "secret_flags",
        "secrets_comment",
        "unknown_comment",
        "without_secrets",
    ),
]


def environment(plan: Plan) -> dict[str, str]:
    """Return the variables that the plan adds to the person's environment."""
    found = dict(plan.launch.environment)
    if plan.launch.gpus is not None:
        found["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
        found["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, plan.launch.gpus))
    return found


def configuration(plan: Plan) -> dict[str, Any]:
    """Return the mapping that the plan's configuration holds, empty without one."""
    return parse_config(plan.config, plan.config_path or "the configuration") if plan.config is not None else {}


def configuration_file(plan: Plan) -> tuple[str | None, list[str]]:
    """Return the path of the configuration for a command in the plan's directory, and the comment it needs there.

    A configuration that is in no file gets a name, and the comment says to save it first.
    """
    path = plan.config_path
    if plan.config is not None and path is None:
        return "config.yaml", [f"Save the configuration (--as yaml) as config.yaml in {plan.cwd} first."]
    return (str(Path(path).expanduser()) if path and path.startswith("~") else path), []


def secret_flags(flags: Iterable[str]) -> list[str]:
    """Return the names of the flags that hold a secret, as they are written."""
    names = [flag.partition("=")[0] for flag in flags if flag.startswith("--")]
    return [name for name in names if is_secret(name)]


def secrets_comment(names: Sequence[str]) -> list[str]:
    """Return the comment on secrets that a form does not hold."""
    return [f"Left out, since secret: {', '.join(names)}. Set them where it runs."] if names else []


def unknown_comment(names: Iterable[str]) -> list[str]:
    """Return the comment on settings that no program knows."""
    unknown = ", ".join(names)
    return [f"Left out: {unknown}. Neither TRL nor accelerate launch knows them."] if unknown else []


def commented(comments: Iterable[str], text: str) -> str:
    """Return `text` with one comment line for each of `comments` before it."""
    return "".join(f"# {' '.join(comment.splitlines())}\n" for comment in comments) + text


def without_secrets(flags: Sequence[str]) -> Iterator[str]:
    """Give the flags but those that hold a secret; of a mapping in JSON only what is secret is hidden."""
    rest = iter(flags)
    for flag in rest:
        if not (flag.startswith("--") and is_secret(flag.partition("=")[0])):
            yield from hide_words([flag])
        elif "=" not in flag:
            next(rest, None)  # its value
