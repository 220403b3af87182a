"""Small models of real classes: every kind of layer, the attention's shapes, and little else."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kerneltui.interpreter import Asker
from tests.prove.models import CONFIGS, write_model

# What a class has of layers when it is small, and how many kinds of them there are.
LAYERS: dict[str, tuple[int, int]] = {
    "LlamaForCausalLM": (2, 1),
    "Qwen3ForCausalLM": (2, 1),
    "Qwen3MoeForCausalLM": (2, 2),  # the first layer is dense
    "Gemma2ForCausalLM": (2, 2),
    "Gemma3ForCausalLM": (2, 2),
    "GptOssForCausalLM": (2, 2),
    "Qwen3NextForCausalLM": (2, 2),
    "Mamba2ForCausalLM": (2, 1),
}
# The fields that decide on what a kernel is called with.
KEPT = (
    *("num_attention_heads", "num_key_value_heads", "head_dim", "sliding_window", "attn_logit_softcapping"),
    *("query_pre_attn_scalar", "linear_key_head_dim", "linear_value_head_dim", "linear_num_key_heads"),
    *("linear_num_value_heads", "num_experts_per_tok", "vocab_size", "state_size", "architectures"),
)

# Classes at their own defaults whose kinds of layers follow from numbers that are no list: a model type, the layers
# that stay, and their kinds.
OTHERS: dict[str, tuple[str, int, int]] = {
    "DeepseekV3ForCausalLM": ("deepseek_v3", 2, 2),  # first_k_dense_replace
    "SmolLM3ForCausalLM": ("smollm3", 2, 2),  # every fourth layer is without positions
    "JambaForCausalLM": ("jamba", 5, 3),  # attention at every eighth layer, experts at every second
    "NemotronHForCausalLM": ("nemotron_h", 4, 4),
    "Gemma3nForCausalLM": ("gemma3n_text", 8, 8),  # shares keys and values with layers before
}

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def asker() -> Iterator[Asker]:
    with Asker(Path(sys.executable)) as process:
        yield process


def _shrink(asker: Asker, source: Path, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    answer = asker.ask("shrink.model", timeout=300, path=str(source), cwd="/", folder=str(folder))
    return answer, json.loads((folder / "config.json").read_text())


@pytest.mark.parametrize("kind", CONFIGS)
def test_a_small_model_has_every_kind_of_layer_and_the_shapes_of_the_attention(
    kind: str, asker: Asker, tmp_path: Path
) -> None:
    answer, config = _shrink(asker, write_model(tmp_path / "real", kind), tmp_path / "small")
    assert (answer["kind"], (answer["layers"], answer["kinds"])) == (kind, LAYERS[kind])
    assert answer["parameters"] < 10_000_000
    real = json.loads((tmp_path / "real" / "config.json").read_text())
    assert {name: config.get(name) for name in KEPT if name in real} == {
        name: real[name] for name in KEPT if name in real
    }
    if "layer_types" in real:
        assert set(config["layer_types"]) == set(real["layer_types"])
    for name in ("tokenizer.json", "chat_template.jinja", "tokenizer_config.json"):
        assert (tmp_path / "small" / name).read_bytes() == (tmp_path / "real" / name).read_bytes()
    assert (tmp_path / "small" / "model.safetensors").exists()


@pytest.mark.parametrize("kind", OTHERS)
def test_kinds_are_found_by_what_the_class_builds(kind: str, asker: Asker, tmp_path: Path) -> None:
    model_type, layers, kinds = OTHERS[kind]
    source = write_model(tmp_path / "real", kind, model_type=model_type)
    answer, config = _shrink(asker, source, tmp_path / "small")
    assert (answer["kind"], answer["layers"], answer["kinds"]) == (kind, layers, kinds)
    assert config.get("num_kv_shared_layers", 2) == 2


def test_the_head_dimension_stays_where_only_the_width_tells_it(asker: Asker, tmp_path: Path) -> None:
    source = write_model(tmp_path / "real", "LlamaForCausalLM", head_dim=None)
    _, config = _shrink(asker, source, tmp_path / "small")
    assert (config["hidden_size"], config["head_dim"]) == (64, 64)


def test_a_class_whose_heads_follow_from_its_width_keeps_it(asker: Asker, tmp_path: Path) -> None:
    gpt2 = {"model_type": "gpt2", "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12}
    source = write_model(tmp_path / "real", "LlamaForCausalLM", architectures=["GPT2LMHeadModel"], **gpt2)
    answer, config = _shrink(asker, source, tmp_path / "small")
    assert (answer["layers"], config["n_embd"], config["n_head"]) == (2, 768, 12)
    assert answer["parameters"] < 20_000_000


def test_layers_that_are_told_by_a_period_stay_in_their_order(asker: Asker, tmp_path: Path) -> None:
    """Of a dense layer at every second place the first two are one of each."""
    source = write_model(tmp_path / "real", "Qwen3MoeForCausalLM", decoder_sparse_step=2, mlp_only_layers=[])
    answer, config = _shrink(asker, source, tmp_path / "small")
    assert (answer["layers"], answer["kinds"], config["decoder_sparse_step"]) == (2, 2, 2)


def test_what_random_weights_cannot_have_is_left_out_and_told(asker: Asker, tmp_path: Path) -> None:
    answer, config = _shrink(asker, write_model(tmp_path / "real", "GptOssForCausalLM"), tmp_path / "small")
    assert answer["left_out"] == ["quantization_config"]
    assert "quantization_config" not in config
