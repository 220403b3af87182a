"""Secrets taken out of text that is given to others: known ones by their value, others by what stands before them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from kerneltui.plan.secrets import HIDDEN, is_secret
from kerneltui.text import hide_secrets

# A shorter value would be found in words that are none.
_SHORTEST = 8
# `name: value`, `name=value`, `"name": "value"`, `--name value`; and what follows "Authorization:".
_NAMED = re.compile(r"""(?P<name>[\w-]+)(?P<between>["']?\s*[=:]\s*["']?|\s+)(?P<value>[^\s"',;}]{8,})""")
_AUTHORIZATION = re.compile(r"(?i)(authorization\W+(?:bearer|basic|token)?\s*)[^\s\"']+")


def known_secrets(*mappings: Mapping[str, object]) -> frozenset[str]:
    """Return the values of secrets: of this environment, of the Hub's login on this machine, and of `mappings`.

    A mapping inside of a mapping (`env`) is looked into.
    """
    named = [*_named(os.environ), *(value for mapping in mappings for value in _named(mapping))]
    return frozenset(value for value in (*named, *_login()) if len(value) >= _SHORTEST)


def _named(mapping: Mapping[str, object]) -> Iterable[str]:
    for name, value in mapping.items():
        if isinstance(value, Mapping):
            yield from _named(value)
        elif value and is_secret(str(name)):
            yield str(value).strip()


def _login() -> Iterable[str]:
    """Give the tokens that `hf auth login` keeps: the one in use, and those that were stored by name."""
    from huggingface_hub import constants

    for path in (constants.HF_TOKEN_PATH, constants.HF_STORED_TOKENS_PATH):
        try:
            text = Path(path).read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        yield from (line.rpartition("=")[2].strip() for line in text.splitlines())


def mask(text: str, secrets: Iterable[str]) -> str:
    """Return `text` with `secrets`, and all that looks like one or has the name of one before it, as `<hidden>`."""
    text = _AUTHORIZATION.sub(rf"\1{HIDDEN}", mask_values(text, secrets))
    return _NAMED.sub(_masked, text)


def mask_values(text: str, secrets: Iterable[str]) -> str:
    """Return `text` with `secrets` and the Hub's tokens replaced, whatever stands before them."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return hide_secrets(text)


def _masked(found: re.Match[str]) -> str:
    if not is_secret(found["name"]):
        return found[0]
    # Prose ("the token is …") has a space between; a flag has two dashes before its name.
    if found["between"].isspace() and not found["name"].startswith("--"):
        return found[0]
    return f"{found['name']}{found['between']}{HIDDEN}"
