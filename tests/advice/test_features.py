"""What the model asks of attention and the kernel cannot do, each with its harmless neighbour."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.advice.situations import (
    A100,
    B200,
    COMMUNITY,
    GEMMA2,
    GPT_OSS,
    GQA,
    H200,
    MHA,
    blocks,
    changes,
    findings,
    make_build,
    make_server,
)

FLASH2 = f"{COMMUNITY}/flash-attn2@v2"
FLASH4 = f"{COMMUNITY}/flash-attn4@v0"
VLLM = f"{COMMUNITY}/vllm-flash-attn3"


def _model(**changed: Any) -> Any:
    return msgspec.structs.replace(MHA, **changed)


def _with(asked: str, **facts: Any) -> dict[str, Any]:
    repository, _, revision = asked.partition("@")
    build = make_build(revision or "v1", "torch-stable-abi210-cu130-x86_64-linux", repository=repository)
    return findings(given={"attn_implementation": asked}, build=build, **facts)


def test_case_44_the_largest_head_of_any_layer_decides() -> None:
    found = _with(FLASH2, model=_model(head_dims=(512, 256)))["features.head_dim"]
    assert found.severity == "block"
    assert "up to 256" in found.title
    assert changes(found) == [{"attn_implementation": "sdpa"}]
    assert "features.head_dim" not in _with(FLASH2, model=_model(head_dims=(256,)))
    assert "multiples of 8" in _with(FLASH2, model=_model(head_dims=(100,)))["features.head_dim"].title
    assert "features.head_dim" not in _with(FLASH2, model=_model(head_dims=(96,)))
    assert "features.head_dim" not in findings(model=_model(head_dims=(512,)))
    native = make_server(H200, flash=("flash_attention_2",))
    asked = {"attn_implementation": "flash_attention_2"}
    assert "features.head_dim" in findings(server=native, given=asked, model=_model(head_dims=(512,)))


def test_flash_attention_4_has_smaller_heads_on_newer_cards() -> None:
    model = _model(head_dims=(256,))
    assert "features.head_dim" not in _with(FLASH4, model=model)
    assert "features.head_dim" in _with(FLASH4, model=model, server=make_server(B200))


def test_case_46_capped_logits_need_a_kernel_whose_backward_has_them() -> None:
    found = _with(FLASH4, model=GEMMA2)["features.softcap"]
    assert found.severity == "block"
    assert changes(found) == [{"attn_implementation": "flex_attention"}, {"attn_implementation": "eager"}]
    assert "features.softcap" not in _with(FLASH2, model=GEMMA2)
    assert "features.softcap" not in _with(FLASH4, model=MHA)


def test_case_45_sinks_are_left_out_where_the_function_has_no_place_for_them() -> None:
    sinking = msgspec.structs.replace(GPT_OSS, sinks=True)
    left_out = _with("somebody/attention@main", model=sinking)["features.sinks"]
    assert left_out.severity == "block"
    frozen = _with(VLLM, model=sinking)["features.sinks"]
    assert frozen.severity == "warn"
    assert "no gradient" in frozen.title
    assert "features.sinks" not in findings(given={"attn_implementation": "eager"}, model=sinking)
    assert "features.sinks" not in _with("somebody/attention@main", model=GQA)


@pytest.mark.parametrize(("asked", "warns"), [(f"{COMMUNITY}/flash-attn3@v1", True), (FLASH2, False)])
def test_dropout_that_a_kernel_does_not_apply(asked: str, warns: bool) -> None:
    found = _with(asked, model=_model(dropout=0.1))
    assert ("features.dropout" in found) == warns
    assert "features.dropout" not in _with(asked, model=_model(dropout=0.0))


def test_layers_with_a_state_are_not_joined_without_their_packages() -> None:
    missing = _model(recurrent=True, packed_needs=("causal-conv1d",), model_type="qwen3_next")
    for given in ({"packing": True}, {"padding_free": True, "max_length": None}):
        found = findings(given=given, model=missing)["features.recurrent_packing"]
        assert (found.severity, found.origin) == ("block", "asked")
        assert found.fixes[0].command == "/opt/train/bin/python -m pip install causal-conv1d"
        assert not findings(given=given, model=_model(recurrent=True, packed_needs=()))
        assert not findings(given=given, model=_model(recurrent=False))
    unchecked = findings(given={"packing": True}, model=_model(recurrent=True))["features.recurrent_packing"]
    assert (unchecked.severity, unchecked.origin) == ("block", "known")
    assert not findings(model=missing)
    assert "features.recurrent_packing" not in findings(
        given={"packing": True, "packing_strategy": "wrapped"}, model=missing
    )


def test_recomputing_needs_a_class_that_supports_it() -> None:
    without = _model(recomputes=False)
    assert changes(findings(model=without)["features.recomputing"]) == [{"gradient_checkpointing": False}]
    assert not findings(model=without, given={"gradient_checkpointing": False})
    assert not findings(model=_model(recomputes=True))


def test_a_loss_on_the_router_needs_one() -> None:
    given = {"router_aux_loss_coef": 0.01}
    assert blocks(given=given, model=_model(router=False)) == {"features.router"}
    assert blocks(given=given, model=_model(router=True)) == set()
    assert blocks(model=_model(router=False)) == set()


def test_a_kernel_of_this_machine_is_not_judged_by_what_is_known_of_the_hubs() -> None:
    local = make_build("v2", "torch-cuda", source="local")
    asked = {"attn_implementation": FLASH2}
    model = _model(head_dims=(512,))
    assert "features.head_dim" not in findings(server=make_server(A100), given=asked, model=model, build=local)
