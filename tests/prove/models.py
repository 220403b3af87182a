"""Models as their configurations describe them, at the shapes of real ones, the demo's tokenizer, no weights."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from kerneltui import demo

_TOKENS = {"vocab_size": 512, "pad_token_id": 0, "bos_token_id": None, "eos_token_id": 2}
_ROPE = {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}
_TWO_KINDS = {"sliding_attention": _ROPE["rope_parameters"], "full_attention": _ROPE["rope_parameters"]}


def _pattern(count: int, every: int, most: str, last: str) -> list[str]:
    return [last if number % every == 0 else most for number in range(1, count + 1)]


# By the name of the class: the shapes of Llama 3.2 1B, Qwen3 0.6B, Qwen3 30B-A3B, Gemma 2 2B, Gemma 3 1B, GPT-OSS 20B,
# Qwen3-Next 80B-A3B and Mamba 2 1.3B, as their config.json has them.
CONFIGS: dict[str, dict[str, Any]] = {
    "LlamaForCausalLM": {
        "model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
        "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64, "tie_word_embeddings": True, **_ROPE,
    },
    "Qwen3ForCausalLM": {
        "model_type": "qwen3", "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28,
        "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "tie_word_embeddings": True, **_ROPE,
    },
    "Qwen3MoeForCausalLM": {
        "model_type": "qwen3_moe", "hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 48,
        "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "moe_intermediate_size": 768,
        "num_experts": 128, "num_experts_per_tok": 8, "decoder_sparse_step": 1, "mlp_only_layers": [0], **_ROPE,
    },
    "Gemma2ForCausalLM": {
        "model_type": "gemma2", "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
        "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "query_pre_attn_scalar": 256,
        "sliding_window": 4096, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0, **_ROPE,
    },
    "Gemma3ForCausalLM": {
        "model_type": "gemma3_text", "hidden_size": 1152, "intermediate_size": 6912, "num_hidden_layers": 26,
        "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 256, "query_pre_attn_scalar": 256,
        "sliding_window": 512, "layer_types": _pattern(26, 6, "sliding_attention", "full_attention"),
        "rope_parameters": _TWO_KINDS,
    },
    "GptOssForCausalLM": {
        "model_type": "gpt_oss", "hidden_size": 2880, "intermediate_size": 2880, "num_hidden_layers": 24,
        "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "num_local_experts": 32,
        "num_experts_per_tok": 4, "sliding_window": 128,
        "layer_types": _pattern(24, 2, "sliding_attention", "full_attention"),
        "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}, **_ROPE,
    },
    "Qwen3NextForCausalLM": {
        "model_type": "qwen3_next", "hidden_size": 2048, "intermediate_size": 5120, "num_hidden_layers": 48,
        "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256, "moe_intermediate_size": 512,
        "shared_expert_intermediate_size": 512, "num_experts": 512, "num_experts_per_tok": 10,
        "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_key_head_dim": 128,
        "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "full_attention_interval": 4,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000000.0, "partial_rotary_factor": 0.25},
    },
    "Mamba2ForCausalLM": {
        "model_type": "mamba2", "hidden_size": 2048, "num_hidden_layers": 48, "num_heads": 64, "head_dim": 64,
        "state_size": 128, "expand": 2, "n_groups": 1, "conv_kernel": 4, "chunk_size": 256,
        "tie_word_embeddings": True,
    },
}  # fmt: skip


def write_model(folder: Path, kind: str, **changes: Any) -> Path:
    """Write the configuration of a class beside the demo's tokenizer, and return the folder.

    A class that is not in `CONFIGS` has its own defaults, but for `changes`.
    """
    folder.mkdir(parents=True)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json"):
        shutil.copyfile(demo.model_path() / name, folder / name)
    config = {"architectures": [kind], "dtype": "bfloat16", **_TOKENS, **CONFIGS.get(kind, {}), **changes}
    (folder / "config.json").write_text(json.dumps(config))
    return folder
