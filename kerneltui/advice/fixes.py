"""The changes and commands that mend findings, written once so that every rule offers them alike."""

from __future__ import annotations

import shlex
from typing import Any

from kerneltui.advice.finding import Fix
from kerneltui.advice.situation import Situation
from kerneltui.facts.server import Server
from kerneltui.installer import install_command
from kerneltui.plan.plan import file_variables
from kerneltui.plan.secrets import is_secret


def native_attention(situation: Situation) -> str:
    """Return the built-in attention that this model can train with: sdpa, or eager where its class has no other."""
    model = situation.model
    fits = model is None or (model.supports_sdpa is not False and model.softcap is None)
    return "sdpa" if fits else "eager"


def use_attention(situation: Situation, name: str, label: str) -> Fix:
    """Return the fix that asks for another attention, wherever the plan asks for the present one."""
    return _set_loading(situation, "attn_implementation", name, label)


def use_native(situation: Situation) -> Fix:
    """Return the fix that trains with built-in attention, which needs no kernel."""
    return use_attention(situation, native_attention(situation), "Take built-in attention")


def use_dtype(situation: Situation, name: str) -> Fix:
    """Return the fix that loads the weights in another dtype."""
    return _set_loading(situation, "dtype", name, f"Load the weights in {name}")


def add_model_options(situation: Situation, label: str, **options: Any) -> Fix:
    """Return the fix that adds entries to `model_init_kwargs`; a fix shows what it writes, so it keeps no secrets."""
    if secrets := situation.settings.model_secrets:
        label += f", without {', '.join(secrets)} (set HF_TOKEN in your shell)"
    return Fix(label=label, changes={"model_init_kwargs": {**situation.settings.model_kwargs, **options}})


def set_variable(situation: Situation, label: str, name: str, value: str | None) -> tuple[Fix, ...]:
    """Return the fix that sets a variable in the file's `env` mapping, or removes it; none where it holds secrets.

    A fix shows and keeps the whole mapping that it writes.
    """
    written = file_variables(situation.plan.config)
    if any(is_secret(other) for other in written):
        return ()
    changed = {other: text for other, text in {**written, name: value}.items() if text is not None}
    return (Fix(label=label, changes={"env": changed or None}),)


def install(server: Server, label: str, *requirements: str) -> Fix:
    """Return the fix that installs `requirements` into the training interpreter of a server."""
    command = install_command(server.interpreter, server.installer, *requirements)
    return Fix(label=label, command=shlex.join(command))


def _set_loading(situation: Situation, field: str, value: str, label: str) -> Fix:
    """Return the fix for a field that `model_init_kwargs` overrides where it names it too."""
    if field in situation.settings.model_kwargs:
        return add_model_options(situation, label, **{field: value})
    return Fix(label=label, changes={field: value})
