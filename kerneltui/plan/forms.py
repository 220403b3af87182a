"""A plan in other forms: the `trl` command, its configuration file, a Python script, a batch script for Slurm.

What a form cannot carry is said in a comment at its top. A form that is made anew holds no tokens and keys.
"""

from __future__ import annotations

import math
import shlex
from typing import Any

import yaml

from kerneltui.plan.form_parts import (
    commented,
    configuration,
    configuration_file,
    environment,
    secret_flags,
    secrets_comment,
    unknown_comment,
    without_secrets,
)
from kerneltui.plan.plan import Plan
from kerneltui.plan.script import COMMANDS, as_python
from kerneltui.plan.secrets import is_secret, leave_out, secret_names
from kerneltui.plan.settings import Settings
from kerneltui.plan.slurm import as_slurm

__all__ = ["FORMS", "as_python", "as_shell", "as_slurm", "as_yaml"]

FORMS = ("shell", "yaml", "python", "slurm")


def as_shell(plan: Plan) -> str:
    """Return the `trl` command of the plan; the directory and the environment that it needs stand before it.

    Where the `trl` command has no such trainer it is kerneltui that starts it.
    """
    config, comments = configuration_file(plan)
    variables = environment(plan)
    secrets = [*secret_flags(plan.flags), *filter(is_secret, variables)]
    words = [f"{name}={shlex.quote(value)}" for name, value in variables.items() if name not in secrets]
    flags = without_secrets(plan.flags)
    program = ["trl"] if plan.trainer in COMMANDS else ["kerneltui", "launch"]
    words.append(shlex.join([*program, plan.trainer, *(["--config", config] if config else []), *flags]))
    return commented([*comments, *secrets_comment(secrets)], f"cd {shlex.quote(plan.cwd)} && {' '.join(words)}\n")


def as_yaml(plan: Plan, settings: Settings) -> str:
    """Return the configuration file: to the byte as it was given where nothing is added to it, else written anew.

    Environment variables and the choice of GPUs go into TRL's `env` mapping.
    """
    added = environment(plan)
    if plan.config is not None and not plan.flags and not added:
        return plan.config
    config = configuration(plan)
    variables = {**added, **(config.pop("env", None) or {})}
    values = {**config, **{name: settings.values[name] for name in settings.given}, **_accelerate(plan, settings)}
    secrets = [*secret_names(values), *secret_names(variables)]
    switches = [f"--{name}" for name, value in settings.accelerate.items() if value is True and name not in config]
    comments = []
    if plan.config is not None:
        comments.append(f"From {plan.config_path or 'a configuration'} and what was added to it, without its comments.")
    if switches:
        comments.append(f"Left out: {' '.join(switches)}. These switches of accelerate work on the command line only.")
    comments += [*secrets_comment(secrets), *unknown_comment(name for name in settings.unknown if name not in config)]
    content = leave_out(values)
    if variables:
        content = {"env": leave_out(variables), **content}
    return commented(comments, yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=math.inf))


def _accelerate(plan: Plan, settings: Settings) -> dict[str, Any]:
    """Return the arguments of `accelerate launch` that flags give, but its switches.

    The name of a configuration that TRL ships stays a name; in the settings it is a path.
    """
    written = configuration(plan)
    found = {
        name: value
        for name, value in settings.accelerate.items()
        if name != "config_file" and value is not True and value != written.get(name)
    }
    for name in ("accelerate_config", "config_file"):
        if f"--{name}" in plan.flags[:-1]:
            found[name] = plan.flags[plan.flags.index(f"--{name}") + 1]
    return found
