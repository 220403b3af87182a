"""Ready plans for a first run: small public models and data, sized to this server, and the embedded ones.

The data sets are those of TRL's documentation, each in the format of its trainer; sizes of models are by the memory
that is free, so that the first run needs no thought about it. What is left open the wizard recommends.
"""

from __future__ import annotations

import os
from typing import Any

from kerneltui import demo
from kerneltui.advice.memory import GIB
from kerneltui.advice.recommend import recommend_gpus
from kerneltui.facts.environment import is_offline
from kerneltui.facts.server import Server
from kerneltui.plan.edit import edit_config
from kerneltui.plan.plan import Launch, Plan
from kerneltui.records import Record

# From so many GiB of free memory on; all have a chat template.
_MODELS = ((40, "Qwen/Qwen3-1.7B"), (8, "Qwen/Qwen3-0.6B"), (0, "HuggingFaceTB/SmolLM2-135M-Instruct"))
_PREFERENCES = "trl-lib/ultrafeedback_binarized"
# Trainer, title, data, and what else it takes.
_ON_THE_HUB: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    ("sft", "Chat model", "trl-lib/Capybara", {}),
    ("dpo", "Preferences", _PREFERENCES, {}),
    ("grpo", "Mathematics", "trl-lib/DeepMath-103K", {"reward_funcs": ["accuracy_reward"]}),
    ("reward", "Reward model", _PREFERENCES, {}),
)
_STEPS, _STEPS_ON_CPU = 200, 20


class Guide(Record):
    """A ready plan: what it is for, what it trains on, and why it is this size. `embedded` ones need no network."""

    title: str
    model: str
    data: str
    why: str
    plan: Plan
    embedded: bool = False


def ready_plans(server: Server, cwd: str) -> tuple[Guide, ...]:
    """Return the ready plans of a server, those first that can start: without the Hub only the embedded ones."""
    embedded = tuple(_embedded(trainer, title, server, cwd) for trainer, title, _, _ in _ON_THE_HUB)
    return (*_public(server, cwd), *embedded) if reaches_hub(server) else embedded


def reaches_hub(server: Server) -> bool:
    """Return whether a run on this server would get what is on the Hub, as far as that is known."""
    hub = server.hub
    return not is_offline(server.environment) and (hub is None or "seconds" not in hub.unavailable)


def _public(server: Server, cwd: str) -> tuple[Guide, ...]:
    chosen = recommend_gpus(server)
    free = max((gpu.memory_free or 0 for gpu in server.gpus if gpu.index in (chosen.gpus or ())), default=0)
    model = next(name for least, name in _MODELS if free >= least * GIB)
    why = f"{chosen.why} {model.partition('/')[2]} fits, and what must be small the options say."
    steps = {"max_steps": _STEPS if chosen.gpus else _STEPS_ON_CPU}
    found = []
    for trainer, title, data, more in _ON_THE_HUB:
        values = {"model_name_or_path": model, "dataset_name": data, **more, **steps, **chosen.values}
        plan = _plan(trainer, cwd, values, Launch(gpus=chosen.gpus))
        found.append(Guide(title=title, model=model, data=data, why=why, plan=plan))
    return tuple(found)


def _embedded(trainer: str, title: str, server: Server, cwd: str) -> Guide:
    chosen, data = recommend_gpus(server), demo.data_path(trainer)
    values = {
        "model_name_or_path": str(demo.model_path()),
        "datasets": [{"path": "json", "data_files": str(data)}],
        **chosen.values,
    }
    environment = {"LOCAL_KERNELS": demo.local_kernels(os.environ.get("LOCAL_KERNELS"))}
    return Guide(
        title=f"{title}, a trial",
        model="a tiny model",
        data=f"{data.stem}, a few rows",
        why="Comes with kerneltui: a whole run in a minute, without a network. The model is too small to learn much.",
        plan=_plan(trainer, cwd, values, Launch(gpus=chosen.gpus, environment=environment)),
        embedded=True,
    )


def _plan(trainer: str, cwd: str, values: dict[str, Any], launch: Launch) -> Plan:
    head = f"# A ready plan of kerneltui; `trl {trainer} --config THIS_FILE` reads it.\nreport_to: none\n"
    return Plan(trainer=trainer, cwd=cwd, config=edit_config(head, values), launch=launch)
