"""Recommendations: taken at every step they give a run that nothing blocks, whatever the server and the model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltui import demo
from kerneltui.advice.finding import Finding
from kerneltui.advice.memory import GIB, parameters
from kerneltui.advice.recommend import (
    Recommendation,
    recommend_attention,
    recommend_gpus,
    recommend_model_and_data,
    recommend_options,
    recommend_revision,
    recommend_trainer,
)
from kerneltui.advice.rules import judge
from kerneltui.advice.situation import Situation
from kerneltui.advice.verdict import Verdict, attention_candidates, try_attention, verdict_of
from kerneltui.facts.dataset import Column, DatasetFacts
from kerneltui.facts.hub import KernelBuild
from kerneltui.facts.model import ModelFacts
from kerneltui.facts.server import Server
from kerneltui.interpreter import Asker, find_interpreter
from kerneltui.plan.plan import Launch, Plan
from kerneltui.plan.settings import read_settings
from tests.advice.situations import (
    A100,
    BLOOM,
    COMMUNITY,
    GEMMA2,
    GPT_OSS,
    GQA,
    H200,
    MHA,
    T4,
    V100,
    make_build,
    make_server,
    make_situation,
)

FLASH2 = f"{COMMUNITY}/flash-attn2"
TRAINERS = ("sft", "dpo", "kto", "reward", "grpo", "rloo", "distillation")
LLAMA8B = msgspec.structs.replace(
    GQA, model_type="llama", layers=32, hidden_size=4096, heads=32, kv_heads=8, vocabulary=128256, context=131072
)
HYBRID = msgspec.structs.replace(GQA, model_type="qwen3_next", layer_types=("full_attention", "linear_attention"))


def server_of(*cards: tuple[str, tuple[int, int]], free: float | None = None, **more: Any) -> Server:
    """Return a server whose torch sees the cards; `free` is in GiB."""
    server = make_server(*cards, **more)
    memory = {"H200": 140, "A100": 80, "T4": 15, "V100": 16}
    gpus = []
    for gpu in server.gpus:
        total = next((size for name, size in memory.items() if name in str(gpu.name)), 16)
        room = total if free is None else free
        gpus.append(
            msgspec.structs.replace(gpu, torch_index=gpu.index, memory_total=total * GIB, memory_free=int(room * GIB))
        )
    return msgspec.structs.replace(server, gpus=tuple(gpus))


def data_of(kind: str, columns: dict[str, str], tokens: tuple[int, ...] | None = (300, 700)) -> DatasetFacts:
    conversational = "messages" in columns.values()
    return DatasetFacts(
        name="rows.jsonl", split="train", format=kind, conversational=conversational, tokens=tokens,
        columns=tuple(Column(name=name, type=word) for name, word in columns.items()), rows=({}, {}),
    )  # fmt: skip


CHAT = data_of("language modeling", {"messages": "messages"})
PAIRS = data_of("preference", {"prompt": "messages", "chosen": "messages", "rejected": "messages"})
LABELS = data_of("unpaired preference", {"prompt": "text", "completion": "text", "label": "bool"})
PROMPTS = data_of("prompt-only", {"prompt": "messages", "solution": "text"})
DATA = {"sft": CHAT, "dpo": PAIRS, "kto": LABELS, "reward": PAIRS, "grpo": PROMPTS, "rloo": PROMPTS}


def build_of(repository: str, revision: str) -> KernelBuild:
    """Return what the Hub has of a kernel, as kernels would decide for torch 2.11 and CUDA 13.0."""
    archs = {"vllm-flash-attn3": ("9.0a",), "flash-attn4": ()}.get(repository.partition("/")[2], ("8.0", "9.0"))
    needs: dict[str, Any] = {"missing_depends": ("nvidia-cutlass-dsl",)} if "flash-attn4" in repository else {}
    variant = None if "aiter" in repository else "torch-stable-abi210-cu130-x86_64-linux"
    return make_build(revision, variant, repository=repository, archs=archs, **needs)


def judged(situation: Situation) -> dict[str, Verdict]:
    """Return every candidate with its verdict, as the kernel table shows them."""
    found = {}
    for name in attention_candidates(situation.server.libraries):
        tried = try_attention(situation, name)
        if tried.attention.kind == "kernel":
            build = build_of(str(tried.attention.repository), str(tried.attention.revision))
            tried = try_attention(situation, name, build=build, trusted=True)
        found[name] = verdict_of(tried)
    return found


def walk(server: Server, model: ModelFacts, trainer: str) -> tuple[Situation, dict[str, Any]]:
    """Press Enter at every step; return the situation at the end and what was set."""
    gpus = recommend_gpus(server)
    values: dict[str, Any] = {"model_name_or_path": "a/model", "dataset_name": "a/data", **gpus.values}
    data = DATA.get(trainer, PROMPTS)
    here: dict[str, Any] = {"server": server, "model": model, "gpus": gpus.gpus, "data": data}
    situation = make_situation(trainer, given=values, **here)
    attention = recommend_attention(situation, judged(situation))
    values |= attention.values
    situation = make_situation(trainer, given=values, **here)
    if situation.attention.kind == "kernel":
        repository = str(situation.attention.repository)
        revisions = {}
        for name in ("v4", "v3", "v2", "v1"):
            build = build_of(repository, name)
            tried = try_attention(situation, f"{repository}@{name}", build=build, trusted=True)
            revisions[name] = verdict_of(tried)
        default = str(situation.attention.revision)
        values |= recommend_revision(situation, revisions).values
        here |= {"build": build_of(repository, values["attn_implementation"].partition("@")[2] or default)}
        here |= {"trusted": True}
        situation = make_situation(trainer, given=values, **here)
    values |= recommend_options(situation).values
    if trainer == "distillation":
        values["teacher_model_name_or_path"] = "a/teacher"  # the one thing that nobody can recommend
    return make_situation(trainer, given=values, **here), values


def alarms(situation: Situation) -> list[Finding]:
    return [finding for finding in judge(situation) if finding.severity != "note"]


OLD_ARCHS = ("sm_70", "sm_75", "sm_80", "sm_86", "sm_90")
SERVERS = {
    "H200": server_of(H200),
    "A100": server_of(A100),
    "A100, little free": server_of(A100, free=20),
    "T4": server_of(T4),
    "V100": server_of(V100, cuda="12.6", archs=OLD_ARCHS),
    "V100, new torch": server_of(V100),
    "CPU": server_of(),
    "H200, torch 2.9": server_of(H200, torch="2.9.1"),
    "H200, kernels too old": server_of(H200, transformers="5.24.0"),
    "two A100": server_of(A100, A100),
    "H200, flash-attn": server_of(H200, flash=("flash_attention_2",), kernels=None),
}
MODELS = {
    "gqa": GQA, "mha": MHA, "gemma2": GEMMA2, "gpt_oss": GPT_OSS, "bloom": BLOOM, "8b": LLAMA8B, "hybrid": HYBRID,
    "unknown": ModelFacts(model_type="x"),
}  # fmt: skip


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


READY = Verdict(kind="ready", reason="fits")
CARE = Verdict(kind="care", reason="careful", severity="warn", titles=("careful",))
REFUSED = Verdict(kind="refused", reason="no build", severity="block", titles=("no build",))
UNKNOWN = Verdict(kind="unknown", reason="not asked")
NATIVE = dict.fromkeys(("sdpa", "flex_attention", "eager"), READY)
HERE, THERE = make_situation(server=server_of(H200)), make_situation(server=server_of())


def _attention(verdicts: dict[str, Verdict], situation: Situation = HERE) -> str:
    found = recommend_attention(situation, {**verdicts, **NATIVE})
    assert found.why.endswith(".")
    return str(found.values["attn_implementation"])


def test_a_kernel_without_a_warning_before_sdpa() -> None:
    third = f"{COMMUNITY}/vllm-flash-attn3"
    assert _attention({third: READY, FLASH2: READY}) == FLASH2
    assert _attention({third: READY, FLASH2: CARE}) == third
    assert _attention({FLASH2: CARE}) == "sdpa"
    assert _attention({FLASH2: UNKNOWN}) == "sdpa"
    assert _attention({FLASH2: READY}, THERE) == "sdpa"


def test_kernels_that_are_chosen_but_not_recommended() -> None:
    assert _attention({f"{COMMUNITY}/flash-attn4": READY}) == "sdpa"
    assert _attention({f"{COMMUNITY}/paged-attention": READY}) == "sdpa"
    unproven = msgspec.structs.replace(READY, ids=("backward.unproven",))
    assert recommend_attention(HERE, {FLASH2: unproven}).why.endswith("Prove it before a long run.")


def test_the_embedded_kernel_for_the_embedded_model() -> None:
    plan = msgspec.structs.replace(THERE.plan, launch=Launch(environment={"LOCAL_KERNELS": "a/b=/c"}))
    found = recommend_attention(msgspec.structs.replace(THERE, plan=plan), {**NATIVE, demo.ATTENTION: READY})
    assert found.values == {"attn_implementation": demo.ATTENTION}
    assert found.environment == {
        "LOCAL_KERNELS": f"a/b=/c:{demo.ATTENTION}={demo.attention_path()}", "HF_HUB_OFFLINE": "1",
    }  # fmt: skip
    assert _attention({demo.ATTENTION: REFUSED}) == "sdpa"


def test_an_installed_flash_attention_and_not_its_stand_in() -> None:
    assert _attention({"flash_attention_2": READY}) == "flash_attention_2"
    assert _attention({"flash_attention_2": msgspec.structs.replace(READY, severity="note")}) == "sdpa"


def test_sdpa_says_why_without_regret() -> None:
    found = recommend_attention(HERE, {FLASH2: REFUSED, **NATIVE})
    assert found.why == (
        "No kernel of the Hub fits this server and model without a warning (no build); torch's own is a good choice."
    )
    refused = recommend_attention(THERE, {"sdpa": REFUSED, "flex_attention": REFUSED, "eager": READY})
    assert refused.values == {"attn_implementation": "eager"}


def _revision(verdicts: dict[str, Verdict], torch: str = "2.11.0") -> Recommendation:
    server = server_of(H200, torch=torch)
    return recommend_revision(make_situation(server=server, given={"attn_implementation": FLASH2}), verdicts)


def test_the_branch_of_transformers_unless_it_has_a_block() -> None:
    fine = _revision({"v5": READY, "v4": READY, "v2": READY})
    assert fine.values == {"attn_implementation": f"{FLASH2}@v4"}
    other = _revision({"v4": REFUSED, "v3": CARE, "v2": READY})
    assert other.values == {"attn_implementation": f"{FLASH2}@v2"}
    assert other.why == "The newest with no warning. Not v4: no build."
    assert _revision({"v4": REFUSED, "v3": CARE}).values == {"attn_implementation": f"{FLASH2}@v3"}
    careful = _revision({"v4": CARE, "v3": CARE}, torch="2.9.1")
    assert careful.values == {"attn_implementation": f"{FLASH2}@v3"}
    assert careful.why == "The branch that transformers takes by itself, though: careful."
    assert _revision({"v4": REFUSED}).values == {}
    assert _revision({"main": READY}).why.endswith("Not v4: it is not there.")


def test_a_class_with_a_closed_list_keeps_the_bare_name() -> None:
    repository = f"{COMMUNITY}/vllm-flash-attn3"
    situation = make_situation(model=GPT_OSS, given={"attn_implementation": repository})
    assert recommend_revision(situation, {"v1": READY}).values == {"attn_implementation": repository}


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
    eight = parameters(LLAMA8B)
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
