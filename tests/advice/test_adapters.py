"""LoRA's layers by name, as peft finds them (run with peft 0.21.2 on the demo's model)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kerneltui.advice.finding import Finding
from tests.advice.situations import GQA, changes, findings

_LINEAR = {"q_proj": 28, "k_proj": 28, "v_proj": 28, "o_proj": 28, "gate_proj": 28, "up_proj": 28, "down_proj": 28}
MODEL = msgspec.structs.replace(GQA, linear=_LINEAR, head="lm_head")


def _findings(names: Any, **given: Any) -> dict[str, Finding]:
    wanted = {"use_peft": True, "lora_target_modules": names, **given}
    found = findings("sft", model=MODEL, given=wanted)
    return {name: finding for name, finding in found.items() if name.startswith("adapters.")}


@pytest.mark.parametrize(
    "names",
    [None, ["all-linear"], "all-linear", ["q_proj", "v_proj"], ["self_attn.q_proj", "v_proj"], [".*q_proj"],
     ["lm_head", "q_proj"], [".*(q|v)_proj"], ["embed_tokens", "q_proj"]],
)  # fmt: skip
def test_names_that_peft_finds(names: Any) -> None:
    assert _findings(names) == {}


def test_names_of_which_none_is_there_block() -> None:
    found = _findings(["Wqkv", "query_key_value"])["adapters.targets"]
    assert (found.severity, found.title) == ("block", "This model has no layer Wqkv or query_key_value")
    assert "It has q_proj (28), " in found.why
    assert changes(found) == [{"lora_target_modules": ["all-linear"]}]


def test_names_that_are_left_out_silently_are_told() -> None:
    found = _findings(["q_proj", "nope"])["adapters.targets"]
    assert (found.severity, found.title) == ("warn", "This model has no layer nope")
    assert "without a word" in found.why


def test_a_single_name_is_a_pattern_for_whole_paths() -> None:
    found = _findings(["q_proj"])["adapters.targets"]
    assert found.severity == "block"
    assert changes(found)[0] == {"lora_target_modules": [".*q_proj"]}
    assert _findings(["Wqkv"])["adapters.targets"].title == "This model has no layer Wqkv"
    assert "is no pattern" in _findings(["(q_proj"])["adapters.targets"].title


def test_without_lora_names_do_not_matter() -> None:
    assert _findings(["nope", "nada"], use_peft=False) == {}


def test_experts_need_the_names_of_their_weights() -> None:
    model = msgspec.structs.replace(MODEL, experts=("mlp.experts.down_proj", "mlp.experts.gate_up_proj"))
    found = findings("sft", model=model, given={"use_peft": True})["adapters.experts"]
    assert changes(found) == [{"lora_target_parameters": list(model.experts)}]
    named = {"use_peft": True, "lora_target_parameters": ["mlp.experts.down_proj"]}
    assert "adapters.experts" not in findings("sft", model=model, given=named)
