"""Servers, models and data that recommendations are asked for, and the way through all steps."""

from __future__ import annotations

from typing import Any

import msgspec

from kerneltui.advice.finding import Finding
from kerneltui.advice.memory import GIB
from kerneltui.advice.recommend import recommend_attention, recommend_gpus, recommend_options, recommend_revision
from kerneltui.advice.rules import judge
from kerneltui.advice.situation import Situation
from kerneltui.advice.verdict import Verdict, attention_candidates, try_attention, verdict_of
from kerneltui.facts.dataset import Column, DatasetFacts
from kerneltui.facts.kernel_records import KernelBuild
from kerneltui.facts.model import ModelFacts
from kerneltui.facts.server import Server
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
