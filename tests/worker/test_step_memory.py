"""Counting the memory of a step: the installed transformers' own code on tensors without data."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kerneltui import demo
from kerneltui.facts.model_memory import ModelMemory, read_model_memory
from kerneltui.interpreter import Asker
from tests.prove.models import write_model

_TRAINING = {"dtype": "bfloat16", "autocast": "bfloat16", "checkpointing": False}


@pytest.fixture(scope="module")
def asker() -> Iterator[Asker]:
    with Asker(Path(sys.executable)) as found:
        yield found


def count(asker: Asker, path: Path | None = None, **asked: Any) -> ModelMemory:
    found, why = read_model_memory(asker, Path("/"), path=str(path or demo.model_path()), **{**_TRAINING, **asked})
    assert found is not None, why
    return found


def per_layer(memory: ModelMemory) -> float:
    """Return the bytes that a layer keeps for a token."""
    one, two = memory.counts
    return (two.kept - one.kept) / one.tokens


def test_a_llama_layer_keeps_what_its_code_says(asker: Asker) -> None:
    found = count(asker)
    assert (found.parameters, found.embedding, found.tied) == (106816, 512 * 64, True)
    hidden, heads, kv, inner = 64, 4 * 16, 2 * 16, 128
    # Each norm: its input in float32, normalised in half precision, its output, a number a row. Attention: q, k, v,
    # the output, a float32 a head. MLP: gate, its activation, up, their product.
    norms = 2 * (8 * hidden + 4)
    attention = 2 * (2 * heads + 2 * kv) + 4 * 4
    assert per_layer(found) == norms + attention + 2 * 4 * inner


def test_checkpointing_keeps_one_hidden_state_a_layer(asker: Asker) -> None:
    found = count(asker, checkpointing=True)
    assert per_layer(found) == 2 * 64
    assert found.counts[0].backward > count(asker).counts[0].kept


def test_layer_kernels_float32_and_eager_attention_change_what_is_kept(asker: Asker) -> None:
    plain = per_layer(count(asker))
    assert per_layer(count(asker, layer_kernels=True)) < plain
    assert per_layer(count(asker, dtype="float32")) > plain
    eager = count(asker, attention="eager").counts
    kept = {(it.layers, it.tokens): it.kept for it in eager}
    short, long = (kept[2, tokens] - kept[1, tokens] for tokens in sorted({it.tokens for it in eager}))
    assert long > 3 * short  # the scores grow with pairs of tokens


def test_adapters_are_counted_by_peft(asker: Asker) -> None:
    lora = {"r": 4, "lora_alpha": 8, "lora_dropout": 0.05, "target_modules": ["q_proj"], "task_type": "CAUSAL_LM"}
    found = count(asker, lora=lora)
    assert found.adapters == 2 * 4 * (64 + 64)
    assert found.parameters == count(asker).parameters
    assert len(found.counts) == 2


@pytest.mark.full
@pytest.mark.parametrize("kind", ["Gemma3ForCausalLM", "Qwen3MoeForCausalLM"])
def test_other_classes_are_counted_too(asker: Asker, tmp_path: Path, kind: str) -> None:
    found = count(asker, write_model(tmp_path / "model", kind))
    assert found.error is None
    assert found.counts[-1].kept > found.counts[0].kept > 0


def test_what_cannot_be_counted_says_why(asker: Asker, tmp_path: Path) -> None:
    found, why = read_model_memory(asker, tmp_path, path=str(tmp_path / "nothing"))
    assert found is None
    assert why
