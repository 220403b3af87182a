"""The one adapter over how transformers loads an attention implementation and calls it in training.

A kernel is loaded by `PreTrainedModel`'s own check of `attn_implementation`, on a model of one tiny layer, and called
as a decoder layer calls it: `ALL_ATTENTION_FUNCTIONS[name](module, q, k, v, mask, …)` with the mask that
`transformers.masking_utils` makes for it. Written against transformers 5.22.2; tests/worker/test_attention_call.py
holds the call against what models of the installed one pass on.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from typing import Any

import torch
from torch import Tensor

from .attention_cases import Case, Inputs, Shape
from .attention_checks import Attend

# Sizes of a model so small that making it costs nothing; attention's own are a case's.
_SMALL = 8


def load(implementation: str, *, allow_all_kernels: bool = False) -> str:
    """Load an implementation as a model does when it is made, and return the name that transformers uses for it.

    Raises whatever transformers and kernels raise.
    """
    from transformers import LlamaForCausalLM
    from transformers.integrations.hub_kernels import is_kernel
    from transformers.modeling_flash_attention_utils import lazy_import_flash_attention

    if allow_all_kernels and is_kernel(implementation):
        lazy_import_flash_attention(implementation, allow_all_kernels=True)
    shape = Shape(heads=1, kv_heads=1, head_dim=_SMALL)
    model = LlamaForCausalLM._from_config(_config(shape, implementation))
    return str(model.config._attn_implementation)


def attention(name: str) -> Attend:
    """Return the attention function `name`, which `load` has loaded, as a layer calls it."""
    return functools.partial(_call, name)


def baseline(name: str, shape: Shape) -> str:
    """Return what to hold `name` against: sdpa, and eager where sdpa cannot express the shape or is itself meant."""
    return "eager" if name == "sdpa" or shape.softcap or shape.sinks else "sdpa"


def _call(name: str, case: Case, inputs: Inputs) -> Tensor:
    shape = case.shape
    module = _module(name, shape, case.dtype, case.device)
    mask, positions = _mask(name, case)
    options: dict[str, Any] = {"position_ids": positions}
    if shape.window is not None:
        options["sliding_window"] = shape.window
    if shape.softcap is not None:
        options["softcap"] = shape.softcap
    module.sinks = inputs.sinks
    if inputs.sinks is not None:
        options["s_aux"] = inputs.sinks
    output, _ = _function(name, shape)(
        module, inputs.q, inputs.k, inputs.v, mask, dropout=0.0, scaling=shape.scaling, **options
    )
    found: Tensor = output
    return found


def _config(shape: Shape, name: str) -> Any:
    from transformers import LlamaConfig

    return LlamaConfig(
        hidden_size=shape.heads,
        intermediate_size=_SMALL,
        num_hidden_layers=1,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        vocab_size=_SMALL,
        sliding_window=shape.window,
        attn_implementation=name,
        pad_token_id=0,
    )


@functools.lru_cache(maxsize=32)
def _module(name: str, shape: Shape, dtype: torch.dtype, device: str) -> Any:
    """Return the layer that the call is made for: attention functions ask it for its groups, dtype and configuration.

    Its `sinks` are set for each call.
    """
    from transformers.models.llama.modeling_llama import LlamaAttention

    module: Any = LlamaAttention(_config(shape, name), layer_idx=0).to(device, dtype)
    module.is_causal = shape.causal
    return module


def _function(name: str, shape: Shape) -> Any:
    """Return the function by its name; eager is in each model's own file, and those differ in what they can."""
    if name != "eager":
        from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

        return ALL_ATTENTION_FUNCTIONS[name]
    model = "gpt_oss" if shape.sinks else "gemma2" if shape.softcap else "llama"
    return importlib.import_module(f"transformers.models.{model}.modeling_{model}").eager_attention_forward


@functools.lru_cache(maxsize=2)  # a model makes them once for all its layers
def _mask(name: str, case: Case) -> tuple[Any, Tensor]:
    """Return the mask that a model makes of a case (None, booleans, numbers, flex attention's blocks), and positions.

    Packed sequences are known by their positions alone.
    """
    from transformers import masking_utils

    positions = case.positions().to(case.device)

    make = masking_utils.create_causal_mask
    if case.shape.window is not None:
        make = masking_utils.create_sliding_window_causal_mask
    padding = (case.documents() >= 0).to(case.device, torch.long) if case.layout == "padded" else None
    embedded = torch.empty(case.rows, case.length, 1, device=case.device, dtype=case.dtype)
    given = {
        "config": _config(case.shape, name),
        "inputs_embeds": embedded,
        "input_embeds": embedded,
        "attention_mask": padding,
        "past_key_values": None,
        "position_ids": positions,
        "cache_position": torch.arange(case.length, device=case.device),
    }
    known = inspect.signature(make).parameters
    return make(**{key: value for key, value in given.items() if key in known}), positions
