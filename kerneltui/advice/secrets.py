"""Secrets that a plan carries, although they can be given without being written anywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kerneltui.advice.finding import Finding, Fix
from kerneltui.advice.situation import Situation
from kerneltui.plan.plan import file_variables
from kerneltui.plan.secrets import is_secret


def written_secrets(situation: Situation) -> list[Finding]:
    """A token on the command line is seen by everybody on the machine; one in the file goes where the file goes."""
    settings = situation.settings
    fields = [name for name in settings.given if is_secret(name) and settings.values.get(name)]
    variables = [name for name, value in file_variables(situation.plan.config).items() if is_secret(name) and value]
    found = [_finding([name], Fix(label=_label(name), changes={name: None})) for name in fields]
    if settings.model_secrets:
        names = [f"model_init_kwargs.{name}" for name in settings.model_secrets]
        found.append(
            _finding(
                names, Fix(label=_label("hub_token"), changes={"model_init_kwargs": settings.model_kwargs or None})
            )
        )
    if variables:
        kept = {name: value for name, value in file_variables(situation.plan.config).items() if name not in variables}
        found.append(_finding(variables, Fix(label=_label(variables[0]), changes={"env": kept or None})))
    return found


def _finding(names: Iterable[str], fix: Fix) -> Finding:
    written = ", ".join(names)
    return Finding(
        id=f"secrets.{written}",
        severity="warn",
        title=f"{written} is written into the plan",
        why="A command line is seen by everybody on the machine, and a file goes wherever it is copied. "
        "kerneltui leaves it out of the run's record; the training process gets it all the same.",
        origin="known",
        source="https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables#hftoken",
        fixes=(fix,),
    )


def _label(name: str) -> str:
    if name.lower().startswith(("hub_", "hf_", "hugging")):
        return "Leave it out, and set HF_TOKEN in your shell or log in with `hf auth login`"
    return f"Leave it out, and set {name} in your shell"


RULES: tuple[Callable[[Situation], list[Finding]], ...] = (written_secrets,)
