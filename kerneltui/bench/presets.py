"""Ready comparisons, and the configurations of the models that they train with random weights."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from kerneltui import demo
from kerneltui.paths import cache_directory, write_atomically
from kerneltui.records import Record

_SOURCE = "https://huggingface.co/Qwen"
"""The published configurations (config.json), as of 2026-11; the tokenizer is the demo's, since no text is read."""

_SHARED = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "head_dim": 128,
    "num_key_value_heads": 8,
    "hidden_act": "silu",
    "max_position_embeddings": 40960,
    "rms_norm_eps": 1e-06,
    "rope_theta": 1000000,
    "vocab_size": 151936,
    "dtype": "bfloat16",
    "bos_token_id": None,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
_MODELS: dict[str, dict[str, Any]] = {
    "Qwen3-8B": {
        "hidden_size": 4096,
        "intermediate_size": 12288,
        "num_attention_heads": 32,
        "num_hidden_layers": 36,
        "tie_word_embeddings": False,
    },
    "Qwen3-0.6B": {
        "hidden_size": 1024,
        "intermediate_size": 3072,
        "num_attention_heads": 16,
        "num_hidden_layers": 28,
        "tie_word_embeddings": True,
    },
}
_TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")


class Preset(Record):
    """What a preset compares where the command line does not say otherwise; `kernels`: all that are ready here."""

    what: str
    model: str
    attention: tuple[str, ...]
    lengths: tuple[int, ...]
    batch: int
    steps: int = 10
    layer_kernels: tuple[str, ...] = ("none",)
    kernels: bool = False


PRESETS = {
    "quick": Preset(
        what="a small model at two lengths, in a minute or two",
        model="Qwen3-0.6B",
        attention=("sdpa", "kernels-community/flash-attn2"),
        lengths=(1024, 4096),
        batch=4,
    ),
    "guide": Preset(
        what="the set-up of the guides: an 8B model, batch 8, bfloat16",
        model="Qwen3-8B",
        attention=("eager", "sdpa", "flex_attention", "kernels-community/flash-attn2"),
        lengths=(512, 1024, 2048, 4096, 8192),
        batch=8,
        layer_kernels=("none", "liger"),
    ),
    "kernels": Preset(
        what="every attention kernel that is ready here, beside sdpa",
        model="Qwen3-0.6B",
        attention=("sdpa",),
        lengths=(2048,),
        batch=4,
        kernels=True,
    ),
}

# Without a GPU: the demo's tiny model, at lengths that a CPU computes in seconds.
CPU_LENGTHS = (64, 128)
CPU_FLAGS = ("--use_cpu", "true", "--bf16", "false", "--dtype", "float32", "--dataloader_pin_memory", "false")
GPU_FLAGS = ("--dtype", "bfloat16")


def model_folder(name: str) -> Path:
    """Return a folder with the configuration of a preset's model and a tokenizer. Raises KerneltuiError."""
    folder = cache_directory() / "models" / name
    folder.mkdir(parents=True, exist_ok=True)
    for file in _TOKENIZER:
        shutil.copyfile(demo.model_path() / file, folder / file)
    write_atomically(folder / "config.json", json.dumps({**_SHARED, **_MODELS[name]}, indent=2).encode())
    return folder
