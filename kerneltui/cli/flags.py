"""Flags that are meant for kerneltui and written wrongly: they must not pass for unknown fields of TRL."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from kerneltui.errors import UsageError, WorkerError

if TYPE_CHECKING:
    from kerneltui.interpreter import Asker
    from kerneltui.plan.plan import Plan


def check_trainer(trainer: str) -> None:
    """Raise UsageError where a flag stands in the trainer's place."""
    if trainer.startswith("-"):
        verb = click.get_current_context().info_name
        raise UsageError(
            f"A trainer comes first, not {trainer}",
            "Flags of TRL stand behind the trainer and its configuration.",
            _meant(trainer.lstrip("-")) or f"Write: kerneltui {verb} TRAINER [CONFIG] [FLAGS]",
        )


def refuse_mistyped(plan: Plan, asker: Asker) -> None:
    """Raise UsageError for a flag that TRL does not know and that is nearest to an option of ours.

    TRL is asked only where a flag looks like one of ours; a TRL that cannot be asked is left to whoever needs it.
    """
    from kerneltui.plan.settings import read_settings

    written = [flag.partition("=")[0].removeprefix("--") for flag in plan.flags if flag.startswith("--")]
    suspects = [name for name in written if _meant(name)]
    if not suspects:
        return
    try:
        settings = read_settings(plan, asker)
    except WorkerError:
        return
    for name in suspects:
        if name in settings.unknown and (hint := _meant(name, settings.values)):
            raise UsageError(f"No such option --{name}", f"TRL's {plan.trainer} has no such field either.", hint)


def _meant(name: str, fields: Iterable[str] = ()) -> str:
    """Return what to say of a flag that is nearer to an option of ours than to any of `fields`, else nothing."""
    from kerneltui.text import nearest

    context = click.get_current_context()
    own = {option.replace("-", "_"): option for option in _options(context.command)}
    close = nearest(name.replace("-", "_"), [*own, *fields])
    if close in own:
        return f"Did you mean --{own[close]}?"
    group = context.parent.command if context.parent else None
    verbs = group.commands.items() if isinstance(group, click.Group) else ()
    having = [verb for verb, command in verbs if name.replace("_", "-") in _options(command)]
    return f"It is an option of {', '.join(having)}." if having else ""


def _options(command: click.Command) -> list[str]:
    """Return the long names of a command's options, without the dashes."""
    return [name[2:] for parameter in command.params for name in parameter.opts if name.startswith("--")]
