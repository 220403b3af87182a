"""The one adapter over transformers' model classes: what a configuration says, without weights."""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
from pathlib import Path
from typing import Any

from .attention_shapes import attention_shapes
from .model_shape import has_chat_template, shape

# Parts of a model's source that keep a state along the sequence instead of attending (state spaces, convolutions).
_RECURRENT = re.compile(r"causal_conv1d|mamba_ssm|selective_scan|gated_delta_rule")
# How transformers 5.18 and newer names the package that a fast version comes from.
_FAST = re.compile(r"use_kernel_func_from_hub_with_fallback\(\s*\"[^\"]+\",\s*\"([\w.]+)\"")
# transformers.integrations.hub_kernels._PACKAGE_TO_DISTRIBUTION
_DISTRIBUTIONS = {"causal_conv1d": "causal-conv1d", "mamba_ssm": "mamba-ssm", "fla": "flash-linear-attention"}


def model(path: str, cwd: str, revision: str | None = None, trust_remote_code: bool = False) -> dict[str, Any]:
    """Return the facts of a model by its local path or Hub name; see `kerneltui.facts.model.ModelFacts`.

    Where the Hub does not give the configuration the answer is `{"error_type", "error", "status"}` with the Hub
    client's own exception, which transformers would hide behind an OSError; `status` is that of HTTP where there was an
    answer.
    """
    from transformers import AutoConfig

    local = Path(cwd, Path(path).expanduser())
    try:
        config = AutoConfig.from_pretrained(
            str(local) if local.is_dir() else path, revision=revision, trust_remote_code=trust_remote_code
        )
    except Exception as error:  # noqa: BLE001 - told apart by type in the front end
        cause = hub_cause(error)
        status = getattr(getattr(cause, "response", None), "status_code", None)
        return {"error_type": type(cause).__name__, "error": str(cause), "status": status}
    template = has_chat_template(str(local) if local.is_dir() else path, revision)
    return {**_facts(config), **shape(config), "chat_template": template}


def hub_cause(error: BaseException) -> BaseException:
    """Return the Hub client's exception behind `error`, or `error` itself."""
    cause: BaseException | None = error
    found = error
    while cause is not None:
        if type(cause).__module__.partition(".")[0] in ("huggingface_hub", "httpx", "httpx2", "requests"):
            found = cause
            # "Neither on the Hub nor in the cache" stands before the reason why the Hub did not give it.
            if type(cause).__name__ != "LocalEntryNotFoundError":
                break
        cause = cause.__cause__ or cause.__context__
    return found


def _facts(config: Any) -> dict[str, Any]:
    text = config.get_text_config()
    # Layers that differ keep transformers from telling what most of them have (Gemma 4); `attention` has each kind.
    text.allow_global_per_layer_attribute_access = True
    heads = getattr(text, "num_attention_heads", None)
    hidden = getattr(text, "hidden_size", None)
    window = _window(text)
    shapes = attention_shapes(text, window, _model_class(config))
    dtype = getattr(config, "dtype", None) or getattr(text, "dtype", None)
    return {
        "model_type": config.model_type,
        "architectures": list(config.architectures or []),
        "layers": getattr(text, "num_hidden_layers", None),
        "hidden_size": hidden,
        "heads": heads,
        "kv_heads": getattr(text, "num_key_value_heads", None) or heads,
        "head_dims": _head_dims(text, hidden, heads, shapes),
        "vocabulary": getattr(text, "vocab_size", None),
        "context": getattr(text, "max_position_embeddings", None),
        "window": window,
        "softcap": getattr(text, "attn_logit_softcapping", None),
        "layer_types": sorted(set(getattr(text, "layer_types", None) or [])),
        "attention": shapes,
        "dtype": str(dtype).removeprefix("torch.") if dtype else None,
        "dropout": getattr(text, "attention_dropout", None),
        "router": hasattr(text, "output_router_logits"),
        **_class_flags(config),
    }


def _head_dims(text: Any, hidden: int | None, heads: int | None, shapes: list[dict[str, Any]]) -> list[int]:
    """Return every head dimension that the configuration names or its kinds of layers have, largest first."""
    named = [getattr(text, name, None) for name in ("head_dim", "global_head_dim", "v_head_dim")]
    latent = [getattr(text, name, None) or 0 for name in ("qk_nope_head_dim", "qk_rope_head_dim")]
    found = {int(value) for value in [*named, sum(latent), *(it["head_dim"] for it in shapes)] if value}
    if not found and hidden and heads:
        found = {hidden // heads}
    return sorted(found, reverse=True)


def _window(text: Any) -> int | None:
    """Return the sliding window in tokens where layers use one."""
    types = getattr(text, "layer_types", None)
    if types is not None and "sliding_attention" not in types:
        return None
    if getattr(text, "use_sliding_window", True) is False:
        return None
    return getattr(text, "sliding_window", None)


def _class_flags(config: Any) -> dict[str, Any]:
    """Return what the model class says of attention; None where the class is not in this transformers."""
    kind = _model_class(config)
    if kind is None:
        return {
            "supports_flash": None,
            "supports_sdpa": None,
            "supports_flex": None,
            "compatible_flash": None,
            "recomputes": None,
            "sinks": None,
            "recurrent": None,
        }
    compatible = getattr(kind, "_compatible_flash_implementations", None)
    return {
        "supports_flash": bool(getattr(kind, "_supports_flash_attn", False)),
        "supports_sdpa": bool(getattr(kind, "_supports_sdpa", False)),
        "supports_flex": bool(getattr(kind, "_supports_flex_attn", False)),
        "compatible_flash": list(compatible) if compatible else None,
        "recomputes": bool(getattr(kind, "supports_gradient_checkpointing", False)),
        **_source_flags(kind),
    }


def _source_flags(kind: Any) -> dict[str, Any]:
    """Return what the source of a model class tells: attention sinks, and layers that keep a state.

    `packed_needs` are the packages that are not here and without which this transformers refuses packed sequences; None
    where it does not look for any.
    """
    try:
        source = inspect.getsource(sys.modules[kind.__module__])
    except (OSError, TypeError):
        return {"sinks": None, "recurrent": None}
    packages = sorted(set(_FAST.findall(source)))
    missing = [name for name in packages if importlib.util.find_spec(name.partition(".")[0]) is None]
    return {
        "sinks": bool(re.search(r"self\.sinks\b", source)),
        "recurrent": bool(_RECURRENT.search(source)),
        "packed_needs": [_DISTRIBUTIONS.get(name, name) for name in missing] if packages else None,
    }


def _model_class(config: Any) -> Any:
    """Return the first class that a configuration names, None where it is not in this transformers."""
    import transformers

    names = list(config.architectures or [])
    return getattr(transformers, names[0], None) if names else None


HANDLERS = {"transformers.model": model}
