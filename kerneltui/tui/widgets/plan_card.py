"""The plan so far, in a few lines."""

from __future__ import annotations

from typing import Any

from textual.content import Content

from kerneltui.errors import KerneltuiError
from kerneltui.plan.plan import parse_config
from kerneltui.plan.secrets import hide
from kerneltui.text import plain_line
from kerneltui.tui.steps.step import WizardState

# Keys that have a line of their own, or say nothing that a person chose.
_TOLD = ("model_name_or_path", "datasets", "dataset_name", "attn_implementation", "report_to", "output_dir", "env")


def plan_card(state: WizardState) -> Content:
    """Return trainer, model, data, attention, GPUs and the other settings that differ from TRL's defaults."""
    values = plan_values(state)
    gpus = state.plan.launch.gpus
    none = state.server is not None and not state.server.gpus
    on_cpu = values.get("use_cpu") or none
    where = "the CPU" if on_cpu else "all GPUs" if gpus is None else f"GPU {', '.join(map(str, gpus))}"
    lines = [
        Content.assemble((state.plan.trainer, "bold"), f" · {short(values.get('model_name_or_path'))}"),
        Content(f"data       {data_name(values)}"),
        Content(f"attention  {short(values.get('attn_implementation'))}{_resolved(state)}"),
        Content(f"on         {where}"),
    ]
    rest = [f"{name}: {value}" for name, value in hide(values).items() if name not in (*_TOLD, "use_cpu")]
    lines += [Content.styled(plain_line(text), "$secondary") for text in rest]
    return Content("\n").join(lines)


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
    """Return a value for one line, a long one cut in its middle; a dash for nothing."""
    if value is None:
        return "–"
    text = plain_line(str(value))
    if len(text) <= width:
        return text
    half = (width - 1) // 2
    return f"{text[: width - 1 - half]}…{text[-half:]}"


def _resolved(state: WizardState) -> str:
    if state.assessment is None:
        return ""
    attention = state.assessment.will_run.attention
    if attention.repository is None:
        return "" if attention.asked else f" ({attention.implementation})"
    commit = attention.commit if attention.commit == "local" else (attention.commit or "")[:8]
    return f"  {attention.revision} @ {commit}" if commit else f"  {attention.revision}"
