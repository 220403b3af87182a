"""Recommendations: taken at every step they give a run that nothing blocks, whatever the server and the model."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltui import demo
from kerneltui.advice.memory import GIB
from kerneltui.advice.recommend import recommend_gpus, recommend_model_and_data, recommend_trainer
from kerneltui.facts.dataset import DatasetFacts
from kerneltui.facts.model import ModelFacts
from kerneltui.facts.server import Server
from tests.advice.recommending import (
    CHAT,
    LABELS,
    MODELS,
    PAIRS,
    PROMPTS,
    SERVERS,
    TRAINERS,
    alarms,
    data_of,
    server_of,
    walk,
)
from tests.advice.situations import A100, H200, T4, V100, make_server


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("model", MODELS)
def test_enter_at_every_step_gives_a_run_without_alarms(server: str, model: str) -> None:
    for trainer in TRAINERS:
        situation, values = walk(SERVERS[server], MODELS[model], trainer)
        assert alarms(situation) == [], (trainer, values)


@given(
    free=st.floats(0.1, 200), card=st.sampled_from([H200, A100, T4, V100]), count=st.integers(1, 4),
    model=st.sampled_from(list(MODELS.values())), trainer=st.sampled_from(TRAINERS),
    torch=st.sampled_from(["2.9.1", "2.11.0", "2.13.0"]), trl=st.sampled_from(["1.10.0", "1.14.2", "1.16.0"]),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_no_memory_or_release_makes_an_alarm(
    free: float, card: tuple[str, tuple[int, int]], count: int, model: ModelFacts, trainer: str, torch: str, trl: str
) -> None:
    server = server_of(*[card] * count, free=free, torch=torch, trl=trl)
    situation, values = walk(server, model, trainer)
    assert alarms(situation) == [], values
    batch = values["per_device_train_batch_size"] * values["gradient_accumulation_steps"]
    assert batch % 8 == 0 or trainer not in ("grpo", "rloo")


def test_the_freest_gpu_that_torch_can_use() -> None:
    server = server_of(H200, H200, A100)
    used = (10, 60, 79)
    gpus = [msgspec.structs.replace(gpu, memory_free=size * GIB) for gpu, size in zip(server.gpus, used, strict=True)]
    server = msgspec.structs.replace(server, gpus=tuple(gpus))
    found = recommend_gpus(server)
    assert (found.gpus, found.values, found.remove) == ((2,), {}, ("use_cpu",))
    assert found.why == "GPU 2 (NVIDIA A100-SXM4-80GB): 79 GiB are free, the most of all."
    hidden = msgspec.structs.replace(gpus[2], torch_index=None)
    assert recommend_gpus(msgspec.structs.replace(server, gpus=(gpus[0], gpus[1], hidden))).gpus == (1,)


@pytest.mark.parametrize(
    ("server", "why"),
    [
        (server_of(), "this server has no GPU"),
        (make_server(H200), "torch sees no GPU, although the driver lists one"),
        (server_of(H200, free=0.5), "every GPU is full (the emptiest has 0.5 GiB free)"),
        (server_of(V100), "this torch has no code for the GPU"),
    ],
)
def test_the_cpu_where_no_gpu_is_of_use(server: Server, why: str) -> None:
    found = recommend_gpus(server)
    assert (found.values, found.gpus) == ({"use_cpu": True}, None)
    assert why in found.why


def test_a_gpu_whose_memory_is_not_told_counts() -> None:
    server = server_of(A100)
    gpu = msgspec.structs.replace(server.gpus[0], memory_free=None, memory_total=None)
    assert recommend_gpus(msgspec.structs.replace(server, gpus=(gpu,))).gpus == (0,)


def test_what_was_used_last_or_the_embedded(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"text": "a"}\n')
    recent = recommend_model_and_data(["a/b", "c/d"], ["rows.jsonl"], tmp_path)
    rows = [{"path": "json", "data_files": "rows.jsonl"}]
    assert recent.values == {"model_name_or_path": "a/b", "datasets": rows}
    assert recent.remove == ("dataset_name",)
    first = recommend_model_and_data([], [], tmp_path, trainer="dpo")
    assert first.values["model_name_or_path"] == str(demo.model_path())
    assert first.values["datasets"][0]["data_files"] == str(demo.data_path("dpo"))
    assert "without a network" in first.why
    assert recommend_model_and_data([], ["a/data"], tmp_path).values["dataset_name"] == "a/data"


@pytest.mark.parametrize(
    ("data", "trainer"), [(CHAT, "sft"), (PAIRS, "dpo"), (LABELS, "kto"), (PROMPTS, "grpo"), (None, "sft")]
)
def test_the_trainer_that_the_data_was_made_for(data: DatasetFacts | None, trainer: str) -> None:
    assert recommend_trainer(data, TRAINERS).trainer == trainer


def test_another_trainer_where_that_one_is_not_there_or_cannot_read_it() -> None:
    assert recommend_trainer(PAIRS, ("reward", "sft")).trainer == "reward"
    odd = data_of("preference", {"prompt": "text", "chosen": "messages", "rejected": "messages"})
    assert recommend_trainer(odd, TRAINERS).trainer == "grpo"
    nothing = data_of("", {"a": "int"})
    assert "No trainer can read this data" in recommend_trainer(nothing, TRAINERS).why
