"""Which options are recommended, and that the installed TRL takes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import yaml

from kerneltui import demo
from kerneltui.advice.memory import expected_parameters
from kerneltui.advice.recommend import recommend_gpus, recommend_options
from kerneltui.facts.model import ModelFacts
from kerneltui.facts.server import Server
from kerneltui.interpreter import Asker, find_interpreter
from kerneltui.plan.plan import Plan
from kerneltui.plan.settings import read_settings
from tests.advice.recommending import CHAT, DATA, FLASH2, HYBRID, LLAMA8B, PROMPTS, SERVERS, TRAINERS, server_of
from tests.advice.situations import A100, GQA, H200, T4, make_build, make_situation


def options(server: Server, model: ModelFacts = GQA, trainer: str = "sft", **more: Any) -> dict[str, Any]:
    given = {"attn_implementation": f"{FLASH2}@v2", **more.pop("given", {})}
    more.setdefault("data", DATA.get(trainer, PROMPTS))
    situation = make_situation(trainer, server=server, model=model, given=given, build=make_build(), **more)
    return recommend_options(situation).values


def test_options_by_the_card() -> None:
    big = options(server_of(H200))
    assert (big["dtype"], big["bf16"], big["packing"], big["max_length"]) == ("bfloat16", True, True, 1024)
    assert (big["per_device_train_batch_size"], big["gradient_accumulation_steps"]) == (8, 2)
    small = options(server_of(T4), given={"attn_implementation": "sdpa"})
    assert (small["fp16"], small["bf16"], small["dtype"]) == (True, False, "float32")
    assert "packing" not in small
    cpu = options(server_of(), given={"attn_implementation": "sdpa"})
    assert (cpu["use_cpu"], cpu["bf16"], cpu["dtype"]) == (True, False, "float32")


def test_sdpa_keeps_the_weights_in_float32_where_that_fits() -> None:
    sdpa = {"attn_implementation": "sdpa"}
    assert "dtype" not in options(server_of(A100), given=sdpa)
    assert options(server_of(A100, free=9), given=sdpa)["dtype"] == "bfloat16"


def test_lora_where_all_weights_do_not_fit() -> None:
    eight = expected_parameters(LLAMA8B)
    assert eight is not None and 7e9 < eight < 9e9
    assert "use_peft" not in options(server_of(H200), LLAMA8B)
    lora = options(server_of(A100, free=40), LLAMA8B)
    assert (lora["use_peft"], lora["lora_target_modules"], lora["learning_rate"]) == (True, ["all-linear"], 2e-4)
    assert options(server_of(A100, free=40), LLAMA8B, "reward")["lora_task_type"] == "SEQ_CLS"


def test_recurrent_layers_are_not_packed() -> None:
    assert "packing" not in options(server_of(H200), HYBRID)
    assert "packing" not in options(server_of(H200), trainer="dpo")


def test_lengths_follow_the_rows_that_were_read() -> None:
    long = msgspec.structs.replace(CHAT, tokens=(100, 3000))
    assert options(server_of(H200), data=long)["max_length"] == 4096
    model = msgspec.structs.replace(GQA, context=2048)
    assert options(server_of(H200), model, data=long)["max_length"] == 2048
    assert options(server_of(H200), data=None)["max_length"] == 1024


def test_what_the_person_set_is_left_as_it_is() -> None:
    chosen = {"attn_implementation": FLASH2, "fp16": True, "max_length": 300, "save_steps": 7, "use_cpu": False}
    found = recommend_options(make_situation(server=server_of(H200), given=chosen, data=CHAT))
    assert not set(found.values) & {"dtype", "bf16", "max_length", "save_steps", "gradient_checkpointing"}
    assert {"packing", "per_device_train_batch_size", "logging_steps"} <= set(found.values)
    assert set(found.reasons) == set(found.values)
    assert found.reasons["packing"] in found.why


def test_the_step_before_may_have_set_what_is_recommended() -> None:
    found = recommend_options(make_situation(server=server_of(), given={"use_cpu": True, "bf16": False}, data=CHAT))
    assert found.values["dtype"] == "float32"
    assert "bf16" not in found.values


@pytest.fixture(scope="module")
def asker() -> Iterator[Asker]:
    with Asker(find_interpreter()) as asker:
        yield asker


DEMO = ModelFacts(
    model_type="llama", architectures=("LlamaForCausalLM",), layers=2, hidden_size=64, heads=4, kv_heads=2,
    head_dims=(16,), vocabulary=512, context=2048, supports_flash=True, supports_sdpa=True, supports_flex=True,
)  # fmt: skip


@pytest.mark.parametrize("trainer", TRAINERS)
@pytest.mark.parametrize("server", ["H200", "A100, little free", "T4", "CPU"])
def test_the_installed_trl_takes_what_is_recommended(asker: Asker, trainer: str, server: str) -> None:
    for path, model in ((str(demo.model_path()), DEMO), ("a/model", LLAMA8B)):
        values: dict[str, Any] = {"model_name_or_path": path, "dataset_name": "a/data"}
        values |= recommend_gpus(SERVERS[server]).values
        plan = Plan(trainer=trainer, cwd="/", config=yaml.safe_dump(values))
        before = make_situation(
            trainer, server=SERVERS[server], model=model, given=values, data=DATA.get(trainer, PROMPTS)
        )
        real = msgspec.structs.replace(before, settings=read_settings(plan, asker))
        chosen = recommend_options(real)
        assert chosen.values and all(why.endswith(".") for why in chosen.reasons.values())
        values |= chosen.values
        after = read_settings(msgspec.structs.replace(plan, config=yaml.safe_dump(values)), asker)
        if trainer == "distillation" and model is LLAMA8B:
            assert all("teacher_model_name_or_path" in error.message for error in after.errors)
        else:
            assert after.errors == ()
        assert after.unknown == ()
        assert set(values) <= set(after.given)
