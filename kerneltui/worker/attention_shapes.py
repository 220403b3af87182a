"""The kinds of attention that a model computes, by its configuration and by the code of its class."""

from __future__ import annotations

import inspect
import sys
from typing import Any


def attention_shapes(text: Any, window: int | None, model: Any) -> list[dict[str, Any]]:
    """Return the fields of a `facts.proof.AttentionShape` for each kind of layer with softmax attention, full first.

    `text` is the text model's configuration, `model` the model's class (None where this transformers lacks it).
    Empty where the configuration names no heads.
    """
    heads = getattr(text, "num_attention_heads", None)
    if not isinstance(heads, int) or not heads:
        return []
    kinds = getattr(text, "layer_types", None) or ["sliding_attention" if window else "full_attention"]
    layers = _layers(text, len(kinds))
    found: dict[str, dict[str, Any]] = {}
    for name in ("full_attention", "sliding_attention"):
        number = next((at for at, kind in enumerate(kinds) if _attends(kind) == name), None)
        if number is not None and (name == "full_attention" or window):
            found[name] = _shape(layers[number], heads, None if name == "full_attention" else window, model)
    return [shape for shape in found.values() if shape["head_dim"]]


def _attends(kind: str) -> str | None:
    """Return how far a kind of layer looks; None for one without softmax attention."""
    if kind == "sliding_attention":
        return kind
    return "full_attention" if kind.endswith("attention") and not kind.startswith("linear") else None


def _layers(text: Any, count: int) -> list[Any]:
    """Return the configuration of each layer; where layers differ (Gemma 4) transformers keeps one for each."""
    own = getattr(text, "per_layer_config", None)
    return [own[number] for number in range(count)] if own else [text] * count


def _shape(text: Any, heads: int, window: int | None, model: Any) -> dict[str, Any]:
    def read(*names: str) -> Any:
        return next((value for name in names if (value := getattr(text, name, None)) is not None), None)

    latent = (read("qk_nope_head_dim") or 0) + (read("qk_rope_head_dim") or 0)
    hidden = read("hidden_size")
    kv_heads = read("num_key_value_heads")
    scalar, multiplier = read("query_pre_attn_scalar"), read("attention_multiplier")
    return {
        "heads": heads,
        # Latent attention makes keys and values for every head before it attends.
        "kv_heads": heads if latent else kv_heads or heads,
        "head_dim": latent or read("head_dim") or (hidden // heads if hidden else None),
        "value_dim": read("v_head_dim") if latent else None,
        "window": window,
        "softcap": read("attn_logit_softcapping"),
        "scale": scalar**-0.5 if scalar else multiplier,
        "sinks": _has_sinks(model),
    }


def _has_sinks(model: Any) -> bool:
    """Return whether the attention in the class's own file learns `sinks`, as GPT-OSS names them."""
    module = sys.modules.get(getattr(model, "__module__", ""))
    try:
        return module is not None and "self.sinks" in inspect.getsource(module)
    except OSError:
        return False
