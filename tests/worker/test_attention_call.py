"""The preflight calls attention as the models of the installed transformers do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from kerneltui.worker import attention_call
from kerneltui.worker.attention_cases import Case, Shape, make_inputs
from kerneltui.worker.attention_checks import try_case

NAME = "recording"
_SMALL: dict[str, Any] = {
    "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "vocab_size": 16, "pad_token_id": 0,
}  # fmt: skip
_TOLD = ("dropout", "scaling", "sliding_window", "softcap", "s_aux", "position_ids")

Call = tuple[Any, dict[str, Any]]


@pytest.fixture
def calls() -> Iterator[list[Call]]:
    """Return the calls of attention in this test: mask and keywords."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.masking_utils import sdpa_mask

    found: list[Call] = []

    def record(module: Any, q: Any, k: Any, v: Any, mask: Any, **options: Any) -> Any:
        found.append((mask, {name: options[name] for name in _TOLD if options.get(name) is not None}))
        options.pop("softcap", None)
        return sdpa_attention_forward(module, q, k, v, mask, **options)

    AttentionInterface.register(NAME, record)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    yield found
    AttentionInterface._global_mapping.pop(NAME)
    AttentionMaskInterface._global_mapping.pop(NAME)


def _shape(**more: Any) -> Shape:
    return Shape(heads=4, kv_heads=2, head_dim=8, **more)


@pytest.mark.parametrize(
    ("model", "more", "shape"),
    [
        ("Llama", {}, _shape()),
        ("Gemma2", {"layer_types": ["sliding_attention"], "sliding_window": 4, "query_pre_attn_scalar": 16},
         _shape(window=4, softcap=50.0, scale=0.25)),
        ("GptOss", {"layer_types": ["full_attention"], "num_local_experts": 2, "num_experts_per_tok": 1},
         _shape(sinks=True)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("layout", ["dense", "padded", "packed"])
def test_attention_is_called_as_the_models_call_it(
    calls: list[Call], model: str, more: dict[str, Any], shape: Shape, layout: Any
) -> None:
    import transformers

    case = Case(shape, layout, (7, 5), torch.float32)
    config = getattr(transformers, f"{model}Config")(**_SMALL, **more)
    made = getattr(transformers, f"{model}ForCausalLM")._from_config(config, attn_implementation=NAME)
    padding = (case.documents() >= 0).long() if layout == "padded" else None
    ids = torch.ones(case.rows, case.length, dtype=torch.long)
    made.train()(input_ids=ids, attention_mask=padding, position_ids=case.positions(), use_cache=False)
    attention_call.attention(NAME)(case, make_inputs(case))
    (mask, options), (our_mask, our_options) = calls
    assert set(our_options) == set(options)
    for name in set(options) - {"s_aux"}:
        assert torch.equal(torch.as_tensor(our_options[name]), torch.as_tensor(options[name])), name
    if model == "GptOss" and layout == "packed":
        assert mask is None  # made without the positions (5.22.2): what has no varlen function leaks in this model
        return
    assert (our_mask is None) == (mask is None)
    assert mask is None or torch.equal(our_mask, mask)


def test_native_names_are_loaded_and_tried() -> None:
    for name in ("sdpa", "eager"):
        assert attention_call.load(name) == name
        beside = attention_call.attention(attention_call.baseline(name, _shape()))
        case = Case(_shape(window=5), "packed", (7, 6), torch.float32)
        checks = try_case(attention_call.attention(name), beside, case)
        assert {check["outcome"] for check in checks} == {"passed"}


def test_sdpa_is_caught_where_it_leaves_out_the_sinks() -> None:
    case = Case(_shape(sinks=True), "dense", (16,), torch.float32)
    checks = try_case(attention_call.attention("sdpa"), attention_call.attention("eager"), case)
    failed = {check["name"]: check for check in checks if check["outcome"] == "failed"}
    assert failed["forward"]["reason"].endswith("it is right for no sinks, so that is ignored")
    assert failed["gradient.sinks"]["reason"] == "there is none"


def test_a_name_that_transformers_does_not_know_is_refused_in_its_words() -> None:
    with pytest.raises(ValueError, match="no_such_attention"):
        attention_call.load("no_such_attention")
