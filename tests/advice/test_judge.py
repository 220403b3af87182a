"""All rules together: order, no repeats, and no crash whatever is not known."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltui.advice import rules
from kerneltui.advice.show import finding_lines
from kerneltui.facts.kernel_records import KernelBuild, KernelMetadata, VariantDecision
from kerneltui.facts.model import ModelFacts
from kerneltui.facts.server import Server
from kerneltui.records import from_json, to_json
from tests.advice.situations import (
    COMMUNITY,
    GPT_OSS,
    GQA,
    H200,
    T4,
    findings,
    make_build,
    make_server,
    make_situation,
)

ASKED = (
    *(None, "", "sdpa", "eager", "flex_attention", "flash_attention_2", "flash_attention_4", "paged|sdpa", "nonsense"),
    *("a/b", "a/b@v1", "a/b@refs/heads/v1", f"{COMMUNITY}/flash-attn2", f"{COMMUNITY}/flash-attn2@v3"),
    *(f"{COMMUNITY}/flash-attn4", f"{COMMUNITY}/paged-attention", "kernels-community/flash-attn2@" + "a" * 40),
)
SERVERS = (make_server(H200), make_server(T4, trl="1.10.0"), make_server(), make_server(H200, transformers="5.24.0"))

optional = st.booleans() | st.none()


@st.composite
def servers(draw: st.DrawFn) -> Server:
    server = draw(st.sampled_from(SERVERS))
    nothing: dict[str, Any] = {"torch": None, "libraries": None, "packages": {}, "gpus": (), "driver_cuda": None}
    gone = {name: value for name, value in nothing.items() if draw(st.booleans())}
    bare = tuple(msgspec.structs.replace(gpu, capability=None, index=None, name=None) for gpu in server.gpus)
    gpus = draw(st.sampled_from([server.gpus, bare]))
    return msgspec.structs.replace(server, **{"gpus": gpus, **gone})


@st.composite
def models(draw: st.DrawFn) -> ModelFacts | None:
    known = draw(st.sampled_from([GQA, GPT_OSS, ModelFacts(model_type="x"), None]))
    if known is None:
        return None
    flags = {name: draw(optional) for name in ("supports_flash", "supports_sdpa", "supports_flex")}
    return msgspec.structs.replace(known, **flags, softcap=draw(st.sampled_from([None, 30.0])))


@st.composite
def builds(draw: st.DrawFn) -> KernelBuild | None:
    found = draw(st.sampled_from([None, make_build(), make_build(variant=None), make_build(source="local")]))
    if found is None or not draw(st.booleans()):
        return found
    texts = st.none() | st.text(max_size=20)
    metadata = KernelMetadata(
        error=draw(texts), load_error=draw(texts), arch_error=draw(texts), kernels_minimum=draw(texts),
        archs=tuple(draw(st.lists(st.text(max_size=6), max_size=2))),
    )  # fmt: skip
    decisions = (VariantDecision(variant=draw(st.text(max_size=9)), reason=draw(texts)),)
    return msgspec.structs.replace(found, metadata=draw(st.sampled_from([None, metadata])), decisions=decisions)


plans = st.fixed_dictionaries(
    {},
    optional={
        "attn_implementation": st.sampled_from(ASKED),
        "dtype": st.sampled_from([None, "auto", "float32", "bfloat16", "bf16"]),
        **dict.fromkeys(("bf16", "fp16", "use_cpu", "packing", "padding_free", "use_liger_kernel"), optional),
        "max_length": st.sampled_from([None, 512]),
        "model_init_kwargs": st.sampled_from([None, {}, {"dtype": "float16"}, {"use_kernels": True}, "{", 3]),
        "liger_kernel_config": st.sampled_from([None, {}, "x"]),
        "model_name_or_path": st.sampled_from([None, "a/b"]),
        "dataset_name": st.sampled_from([None, "a/b"]),
        "unknown-key": st.integers(),
    },
)


@given(
    trainer=st.sampled_from(["sft", "dpo", "grpo", "reward", "distillation"]),
    server=servers(), model=models(), build=builds(), plan=plans, others=st.none() | st.lists(builds(), max_size=2),
    trusted=optional, error=st.sampled_from([None, ("gated", "Refused"), ("offline", "Not asked\nwhy")]),
    message=st.sampled_from(["", "generation_batch_size (0) must be divisible by num_generations (0).", "x\ny"]),
)  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_judging_never_fails(
    trainer: str, server: Server, model: ModelFacts | None, build: KernelBuild | None, plan: dict[str, Any],
    others: list[KernelBuild | None] | None, trusted: bool | None, error: tuple[str, str] | None, message: str,
) -> None:  # fmt: skip
    situation = make_situation(
        trainer, server=server, model=model, given=plan, unknown_keys=("unknown-key",) if "unknown-key" in plan else (),
        errors=(message,) if message else (), build=build, build_error=error, trusted=trusted,
        alternatives=None if others is None else tuple(other for other in others if other),
    )  # fmt: skip
    found = rules.judge(situation)
    order = [("block", "warn", "note").index(finding.severity) for finding in found]
    assert order == sorted(order)
    assert len({(finding.id, finding.title) for finding in found}) == len(found)
    assert all(finding.source and finding.title for finding in found)
    assert finding_lines(found, width=80)


def test_findings_are_records() -> None:
    for finding in findings(server=make_server(T4), given={"padding_free": True}).values():
        assert from_json(to_json(finding), type(finding), "a finding") == finding


def test_every_rule_says_where_it_is_from() -> None:
    for subject in rules._SUBJECTS:
        assert all(rule.__doc__ for rule in subject.RULES)
