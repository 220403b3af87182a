"""The kinds of attention of real configuration classes, as the installed transformers has them."""

from __future__ import annotations

from typing import Any

import pytest

from kerneltui.worker.transformers_adapter import _facts


@pytest.mark.parametrize(
    ("config", "model", "expected"),
    [
        ("LlamaConfig", "LlamaForCausalLM", [(32, 32, 128, None)]),
        ("MistralConfig", "MistralForCausalLM", [(32, 8, 128, 4096)]),
        ("Gemma2Config", "Gemma2ForCausalLM", [(8, 4, 256, None), (8, 4, 256, 4096)]),
        ("Gemma4TextConfig", "Gemma4ForCausalLM", [(8, 4, 512, None), (8, 4, 256, 512)]),
        ("GptOssConfig", "GptOssForCausalLM", [(64, 8, 64, None), (64, 8, 64, 128)]),
        ("Qwen3NextConfig", "Qwen3NextForCausalLM", [(16, 2, 256, None)]),
        ("GPT2Config", "GPT2LMHeadModel", [(12, 12, 64, None)]),
        ("Mamba2Config", "Mamba2ForCausalLM", []),
    ],
)
def test_shapes_of_real_configurations(config: str, model: str, expected: list[Any]) -> None:
    import transformers

    facts = _facts(getattr(transformers, config)(architectures=[model]))
    found = [(it["heads"], it["kv_heads"], it["head_dim"], it["window"]) for it in facts["attention"]]
    assert found == expected
    assert {it["head_dim"] for it in facts["attention"]} <= set(facts["head_dims"]) or not expected


def test_softcap_scale_sinks_and_latent_heads() -> None:
    import transformers

    def first(config: str, model: str) -> dict[str, Any]:
        return _facts(getattr(transformers, config)(architectures=[model]))["attention"][0]

    gemma, oss = first("Gemma2Config", "Gemma2ForCausalLM"), first("GptOssConfig", "GptOssForCausalLM")
    assert (gemma["softcap"], gemma["scale"], gemma["sinks"]) == (50.0, 256**-0.5, False)
    assert oss["sinks"] is True
    latent = first("DeepseekV3Config", "DeepseekV3ForCausalLM")
    assert (latent["heads"], latent["kv_heads"], latent["head_dim"], latent["value_dim"]) == (128, 128, 192, 128)
