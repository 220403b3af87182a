"""A model's configuration with little width: its attention's heads and dimensions stay, the rest becomes small.

Which narrowing a class takes is asked of the class. Each of `ways` is tried in turn, the smallest first; a way counts
if the class builds the model, its attention projects to the same shapes as before, and a forward pass runs.
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Iterator
from typing import Any

from .shortened import again, parts

# The width of the hidden state and of the MLPs in between, where they may be chosen.
_HIDDEN, _MLP = 64, 128
_HIDDEN_NAMES = ("hidden_size", "n_embd", "d_model")
_MLP_NAMES = (
    *("intermediate_size", "intermediate_size_mlp", "moe_intermediate_size", "shared_expert_intermediate_size"),
    *("moe_shared_expert_intermediate_size", "shared_intermediate_size", "expert_ffn_hidden_size", "ffn_hidden_size"),
    *("n_inner", "ffn_dim", "d_ff", "block_ff_dim", "feed_forward_dim"),
)
_EXPERT_NAMES = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
_CHOSEN_NAMES = ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "experts_per_token", "top_k")
# Widths beside the hidden state's own: of Gemma's embeddings for each layer, say.
_OTHER_NAMES = ("hidden_size_per_layer_input",)
# Fields of other parts that hold the width of the text's hidden state.
_OUTWARD = ("out_hidden_size", "projection_dim", "text_hidden_size", "output_dim", "llm_hidden_size")
# Recurrent layers whose inner width is a multiple of the hidden state's: expansion, heads, dimension of a head.
_RECURRENT = (
    ("expand", "num_heads", "head_dim", "n_groups"),
    ("mamba_expand", "mamba_n_heads", "mamba_d_head", "mamba_n_groups"),
)
_ATTENTION = re.compile(r"Attention|DeltaNet")
_PROJECTIONS = re.compile(r"^(q|k|v|qk|kv|qkv|query|key|value|in|c)(_|$)|query_key_value|pack", re.IGNORECASE)


def ways(config: Any) -> Iterator[Any]:
    """Give copies of a configuration, the narrowest first; the last one has all of its widths."""
    for hidden, mlp in ((True, True), (False, True), (False, False)):
        narrow = copy.deepcopy(config)
        for part in parts(narrow):
            _narrow(part, hidden=hidden and part is narrow.get_text_config(), mlp=mlp)
        if hidden:
            _tell_others(config, narrow)
        try:
            yield again(narrow)
        except Exception:  # noqa: BLE001 - a class that refuses these widths, in whatever way
            continue


def attention_shapes(model: Any) -> list[tuple[Any, ...]]:
    """Return what the attention of each layer projects to, by the class of its module."""
    found = []
    for module in model.modules():
        if not _ATTENTION.search(type(module).__name__):
            continue
        widths = {
            name: getattr(child, "out_features", None) or getattr(child, "nf", None)
            for name, child in module.named_children()
            if _PROJECTIONS.search(name)
        }
        found.append((type(module).__name__, getattr(module, "head_dim", None), tuple(sorted(widths.items()))))
    return found


def _narrow(part: Any, *, hidden: bool, mlp: bool) -> None:
    """Make a part narrow: its hidden state, its MLPs; its experts are made few in any case."""
    if hidden:
        _narrow_hidden(part)
        _limit(part, _OTHER_NAMES, _HIDDEN)
    if mlp:
        _limit(part, _MLP_NAMES, _MLP)
    _thin_experts(part)


def _limit(part: Any, names: tuple[str, ...], limit: int) -> None:
    """Let the fields of these names be no larger than `limit`; some configurations have one for each layer."""
    for name in names:
        value = getattr(part, name, None)
        if isinstance(value, int):
            setattr(part, name, min(value, limit))
        elif isinstance(value, list):
            setattr(part, name, [min(it, limit) if isinstance(it, int) else it for it in value])


def _narrow_hidden(part: Any) -> None:
    name = next((name for name in _HIDDEN_NAMES if isinstance(getattr(part, name, None), int)), None)
    if name is None:
        return
    old, heads = getattr(part, name), getattr(part, "num_attention_heads", None)
    heads = heads if isinstance(heads, int) and heads > 0 else 1
    # Whole heads for classes that ask for that, and rows of 16 for grouped matrix products.
    unit = math.lcm(heads, 16)
    if recurrent := _recurrent(part, old):
        expand, count, dimension, groups = recurrent
        unit = math.lcm(unit, getattr(part, dimension) * (getattr(part, groups, None) or 1))
    width = min(old, unit * math.ceil(_HIDDEN / unit))
    if recurrent:
        setattr(part, count, getattr(part, expand) * width // getattr(part, dimension))
    elif not getattr(part, "head_dim", None) and heads > 1:
        part.head_dim = old // heads
    setattr(part, name, width)


def _recurrent(part: Any, hidden: int) -> tuple[str, ...] | None:
    """Return the names of the fields that tie recurrent heads to the width of the hidden state, None without any."""
    for names in _RECURRENT:
        expand, count, dimension = (getattr(part, name, None) for name in names[:3])
        sizes = all(isinstance(value, int) for value in (expand, count, dimension))
        if sizes and expand * hidden == count * dimension:  # type: ignore[operator]
            return names
    return None


def _thin_experts(part: Any) -> None:
    """Leave as many experts as a token takes, in as many groups as before, and not fewer than four."""
    chosen = max((value for it in _CHOSEN_NAMES if isinstance(value := getattr(part, it, None), int)), default=1)
    groups = getattr(part, "n_group", None) or 1
    for name in _EXPERT_NAMES:
        if isinstance(old := getattr(part, name, None), int) and not isinstance(old, bool) and old > 1:
            # DeepSeek takes the two best of each group, and of the best groups all that a token needs.
            taken = getattr(part, "topk_group", None) or 1
            each = max(2 if groups > 1 else 4, math.ceil(chosen / taken))
            setattr(part, name, min(old, groups * each))


def _tell_others(old: Any, new: Any) -> None:
    """Give the parts that project into the text's hidden state its new width."""
    before, after = (getattr(it.get_text_config(), "hidden_size", None) for it in (old, new))
    text = new.get_text_config()
    for part in (new, *(it for it in parts(new) if it is not text)):
        # Qwen2-VL's vision calls the width that it hands over "hidden_size", and its own "embed_dim".
        outward = (*_OUTWARD, "hidden_size") if hasattr(part, "embed_dim") else _OUTWARD
        for name in outward:
            if part is not text and before and getattr(part, name, None) == before:
                setattr(part, name, after)
