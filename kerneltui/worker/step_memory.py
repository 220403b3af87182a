"""What one training step of a model keeps in memory, counted without weights: its code runs on tensors without data.

torch's fake tensors go through forward and backward of one layer and of some layers, and each storage that lives is
counted. So the count knows what this release of the model's code keeps, float32 copies and all. A GPU is not asked.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import json
from pathlib import Path
from typing import Any, NamedTuple

from .model_shape import ConfigKey

# Counts that are kept: a plan asks for the same at every key.
_KEPT = 16
# A prime: what has it as a factor grows with the tokens, everything else with the weights.
_LENGTH = 521
_ATTENTION = "kerneltui_fused"
# At most so many layers are counted: a pattern of several kinds of layers is mostly shorter.
_MOST_LAYERS = 6


class _Way(NamedTuple):
    """How a model is trained, as far as it matters to what a step keeps; `lora` as JSON."""

    score: bool
    dtype: str
    autocast: str | None
    attention: str
    checkpointing: bool
    layer_kernels: bool
    lora: str


def memory(
    path: str,
    cwd: str,
    revision: str | None = None,
    trust_remote_code: bool = False,
    dtype: str = "float32",
    autocast: str | None = None,
    attention: str = "fused",
    checkpointing: bool = True,
    layer_kernels: bool = False,
    score: bool = False,
    lora: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the counts of a model; see `kerneltui.facts.model_memory.ModelMemory`.

    `attention` is "fused" or "eager"; `score` asks for the class that reward models have; `lora` are arguments of
    PEFT's LoraConfig. Where the model's code cannot run without data the answer is `{"error"}`, with the counts of its
    parameters if at least those could be found.
    """
    way = _Way(score, dtype, autocast, attention, checkpointing, layer_kernels, json.dumps(lora))
    answer: dict[str, Any] = {}
    try:
        config = ConfigKey(_config(path, cwd, revision, trust_remote_code))
        answer |= _parameters(config, way)
        answer["counts"] = _counts(config, way)
    except Exception as error:  # noqa: BLE001 - code of any model may fail on tensors without data
        answer["error"] = f"{type(error).__name__}: {error}"[:500]
    return answer


@functools.lru_cache(maxsize=_KEPT)
def _counts(key: ConfigKey, way: _Way) -> list[dict[str, int]]:
    """Return what one layer and some layers keep; of explicit scores, which grow with pairs of tokens, twice."""
    config = key.config
    lengths = (_LENGTH, 2 * _LENGTH) if way.attention == "eager" else (_LENGTH,)
    with _fused_attention():
        return [
            {"layers": layers, "tokens": length, **_count(_shrunk(config, layers), way, length)}
            for layers in _layer_numbers(config)
            for length in lengths
        ]


def _config(path: str, cwd: str, revision: str | None, trust_remote_code: bool) -> Any:
    from transformers import AutoConfig

    local = Path(cwd, Path(path).expanduser())
    name = str(local) if local.is_dir() else path
    return AutoConfig.from_pretrained(name, revision=revision, trust_remote_code=trust_remote_code)


def _layer_numbers(config: Any) -> list[int]:
    text = config.get_text_config()
    kinds = list(getattr(text, "layer_types", None) or [])
    period = max((kinds.index(kind) for kind in set(kinds)), default=0) + 1
    return sorted({1, min(text.num_hidden_layers, 1 + period, _MOST_LAYERS)})


def _shrunk(config: Any, layers: int) -> Any:
    config = copy.deepcopy(config)
    text = config.get_text_config()
    text.num_hidden_layers = layers
    if getattr(text, "layer_types", None):
        text.layer_types = text.layer_types[:layers]
    return config


def _build(config: Any, score: bool, dtype: str, device: str, attention: str | None = None) -> Any:
    """Return a model of the configuration's class, without reading weights."""
    import torch
    import transformers

    kind: Any = getattr(transformers, (config.architectures or [""])[0], None)
    if score:
        kind, config.num_labels = transformers.AutoModelForSequenceClassification, 1
    elif kind is None:
        kind = transformers.AutoModelForCausalLM
    build = kind.from_config if hasattr(kind, "from_config") else kind._from_config
    with torch.device(device):
        return build(config, dtype=getattr(torch, dtype), **({"attn_implementation": attention} if attention else {}))


def _with_lora(model: Any, way: _Way) -> Any:
    arguments = json.loads(way.lora)
    if arguments is None:
        return model
    from peft import LoraConfig, get_peft_model

    return get_peft_model(model, LoraConfig(**arguments))


@functools.lru_cache(maxsize=_KEPT)
def _parameters(key: ConfigKey, way: _Way) -> dict[str, Any]:
    """Return how many parameters there are, shared ones once."""
    model = _build(key.config, way.score, "float32", "meta")
    model.tie_weights()
    embedding, head = model.get_input_embeddings(), model.get_output_embeddings()
    counts = {
        "parameters": sum(it.numel() for it in model.parameters()),
        "embedding": embedding.weight.numel(),
        "head": 0 if head is None else head.weight.numel(),
        "tied": head is not None and head.weight is embedding.weight,
    }
    adapted = _with_lora(model, way)
    trained = sum(it.numel() for it in adapted.parameters() if it.requires_grad)
    return {**counts, "adapters": 0 if adapted is model else trained}


def _count(config: Any, way: _Way, length: int) -> dict[str, int]:
    """Return the bytes that grow with the tokens: kept after the forward pass, and the peaks of both passes."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    from .live_bytes import LiveBytes

    name = _ATTENTION if way.attention == "fused" else way.attention
    bare = _build(config, way.score, way.dtype, "meta", name)
    model = _with_lora(bare, way)
    with FakeTensorMode():
        _make_fake(model)
        plain = model.get_base_model() if model is not bare else model
        _as_on_a_gpu(model, way.layer_kernels)
        model.train()
        if way.checkpointing:
            plain.gradient_checkpointing_enable({"use_reentrant": False})
            if model is not bare:
                plain.enable_input_require_grads()
        ids, mask = torch.zeros(1, length, dtype=torch.long), torch.ones(1, length, dtype=torch.long)
        live = LiveBytes(model, _LENGTH)
        with live:
            with torch.autocast("cpu", getattr(torch, way.autocast or "bfloat16"), enabled=way.autocast is not None):
                hidden = plain.base_model(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state
            kept, forward = live.now, live.restart()
            hidden.backward(torch.empty_like(hidden))
            return {"kept": kept, "forward": forward, "backward": live.peak}


def _make_fake(model: Any) -> None:
    """Give every parameter and buffer a tensor without data that says it is on the CPU, where autocast works."""
    import torch

    made: dict[int, Any] = {}
    for module in model.modules():
        for tensors in (module._parameters, module._buffers):
            for name, it in tensors.items():
                if it is not None and id(it) not in made:
                    empty = torch.empty(it.shape, dtype=it.dtype)
                    is_weight = isinstance(it, torch.nn.Parameter)
                    made[id(it)] = (torch.nn.Parameter(empty, it.requires_grad) if is_weight else empty), it
                if it is not None:
                    tensors[name] = made[id(it)][0]


def _as_on_a_gpu(model: Any, layer_kernels: bool) -> None:
    """Put in place of some modules what keeps the bytes that their GPU code keeps."""
    from . import as_on_gpu

    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if replaced := as_on_gpu.replacement(child, layer_kernels):
                setattr(module, name, replaced)


@contextlib.contextmanager
def _fused_attention() -> Any:
    """Register an attention that keeps what FlashAttention and torch's fused kernels keep."""
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    from .as_on_gpu import attention

    ALL_ATTENTION_FUNCTIONS.register(_ATTENTION, attention)
    ALL_MASK_ATTENTION_FUNCTIONS.register(_ATTENTION, lambda *_, **__: None)
    yield


HANDLERS = {"transformers.memory": memory}
