"""Ready plans for a first run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from kerneltui import demo
from kerneltui.advice.guides import Guide, ready_plans
from kerneltui.facts.server import HubAnswer, Server
from kerneltui.records import read_record

SERVERS = Path(__file__).parents[1] / "servers"
TRAINERS = ["sft", "dpo", "grpo", "reward"]


def _server(name: str, **changes: Any) -> Server:
    return msgspec.structs.replace(read_record(SERVERS / f"{name}.json", Server), **changes)


def _values(guide: Guide) -> dict[str, Any]:
    found = yaml.safe_load(guide.plan.config or "")
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    ("name", "model", "gpus", "steps"),
    [
        ("h200", "Qwen/Qwen3-1.7B", (0,), 200),
        ("t4", "Qwen/Qwen3-0.6B", (0,), 200),
        ("no-gpu", "HuggingFaceTB/SmolLM2-135M-Instruct", None, 20),
    ],
)
def test_public_models_are_sized_to_the_server(name: str, model: str, gpus: tuple[int, ...] | None, steps: int) -> None:
    guides = [guide for guide in ready_plans(_server(name, environment={}, hub=None), "/work") if not guide.embedded]
    assert [guide.plan.trainer for guide in guides] == TRAINERS
    for guide in guides:
        values = _values(guide)
        assert (values["model_name_or_path"], values["max_steps"]) == (model, steps)
        assert values["dataset_name"] == guide.data
        assert guide.plan.launch.gpus == gpus
        assert values.get("use_cpu", False) == (gpus is None)
    assert _values(guides[2])["reward_funcs"] == ["accuracy_reward"]


def test_without_the_hub_only_what_is_embedded_is_offered() -> None:
    silent = HubAnswer(endpoint="https://huggingface.co", unavailable={"seconds": "no route to host"})
    for server in (_server("h200", hub=silent), _server("h200", environment={"HF_HUB_OFFLINE": "1"})):
        guides = ready_plans(server, "/work")
        assert [guide.plan.trainer for guide in guides] == TRAINERS
        assert all(guide.embedded for guide in guides)


def test_the_embedded_plans_name_files_that_are_there() -> None:
    found = [guide for guide in ready_plans(_server("no-gpu"), "/work") if guide.embedded]
    assert [guide.plan.trainer for guide in found] == TRAINERS
    for guide in found:
        values = _values(guide)
        assert values["model_name_or_path"] == str(demo.model_path())
        assert values["datasets"] == [{"path": "json", "data_files": str(demo.data_path(guide.plan.trainer))}]
        assert demo.ATTENTION in guide.plan.launch.environment["LOCAL_KERNELS"]
