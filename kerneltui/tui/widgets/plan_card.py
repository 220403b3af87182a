"""The plan so far, in a few lines."""

from __future__ import annotations

from typing import Any

from textual.content import Content

from kerneltui.errors import KerneltuiError
from kerneltui.plan.plan import parse_config
from kerneltui.plan.secrets import hide
from kerneltui.plan.values import value_text
from kerneltui.text import cut_middle, plain_line
from kerneltui.tui.steps.step import WizardState

# Keys that have a line of their own, or say nothing that a person chose.
_TOLD = ("model_name_or_path", "datasets", "dataset_name", "attn_implementation", "report_to", "output_dir", "env")


def plan_card(state: WizardState) -> Content:
    """Return trainer, model, data, attention, GPUs and the other settings that differ from TRL's defaults."""
    values = plan_values(state)
    lines = [
        Content.assemble((state.plan.trainer, "bold"), f" · {short(values.get('model_name_or_path'))}"),
        Content(f"data       {data_name(values)}"),
        Content(f"attention  {_attention(state, values)}"),
        Content(f"on         {_where(state, values)}"),
    ]
    rest = [f"{name}: {value_text(value)}" for name, value in hide(values).items() if name not in (*_TOLD, "use_cpu")]
    lines += [Content.styled(plain_line(text), "$secondary") for text in rest]
    return Content("\n").join(lines)


def plan_line(state: WizardState) -> Content:
    """Return the plan in one line, for terminals that have no room for its card."""
    values = plan_values(state)
    parts = [
        _last(values.get("model_name_or_path")),
        _last(data_name(values)),
        _last(values.get("attn_implementation")),
        _where(state, values),
    ]
    told = [part for part in parts if part and part != "–"]
    return Content(" · ").join([Content.styled(state.plan.trainer, "bold"), *map(Content, told)])


def _where(state: WizardState, values: dict[str, Any]) -> str:
    """Return what the run would compute on."""
    gpus = state.plan.launch.gpus
    none = state.server is not None and not state.server.gpus
    if values.get("use_cpu") or none:
        return "the CPU"
    return "all GPUs" if gpus is None else f"GPU {', '.join(map(str, gpus))}"


def _last(value: object) -> str:
    """Return the last part of a path or of a Hub name."""
    return short(str(value).rstrip("/").rpartition("/")[2], 24) if value else ""


def plan_values(state: WizardState) -> dict[str, Any]:
    """Return the configuration's values, none where it cannot be read."""
    try:
        return parse_config(state.plan.config or "{}", "the configuration")
    except KerneltuiError:
        return {}


def data_name(values: dict[str, Any]) -> str:
    """Return the name of a configuration's data: a Hub name, or its files."""
    mixture = values.get("datasets")
    if isinstance(mixture, list) and mixture and isinstance(mixture[0], dict):
        files = mixture[0].get("data_files") or mixture[0].get("path")
        more = f" and {len(mixture) - 1} more" if len(mixture) > 1 else ""
        return f"{short(files)}{more}"
    return short(values.get("dataset_name"))


def short(value: object, width: int = 30) -> str:
    """Return a value for one line in at most `width` cells, a long one cut in its middle; a dash for nothing."""
    if value is None:
        return "–"
    return cut_middle(plain_line(str(value)), width)


def _attention(state: WizardState, values: dict[str, Any]) -> str:
    """Return what was asked for, and what it resolves to: the revision where none was named, and the commit."""
    asked = values.get("attn_implementation")
    name = short(str(asked).removeprefix("kernels-community/") if asked else None)
    found = state.assessment.will_run.attention if state.assessment else None
    if found is None or found.asked != asked:
        return name
    if found.repository is None:
        return name if asked else f"{name} ({found.implementation})"
    revision = None if "@" in str(asked) else found.revision
    commit = found.commit[:8] if found.commit else None
    return " · ".join(filter(None, (name, revision, commit)))
