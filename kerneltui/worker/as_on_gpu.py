"""Stand-ins that keep for the backward pass what the code of a GPU keeps, and compute nothing."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class _Fused(torch.autograd.Function):
    """FlashAttention: queries, keys, values, the output and one float32 a query and head."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        batch, heads, length, _ = query.shape
        output = query.new_empty(batch, length, heads, value.shape[-1])
        ctx.save_for_backward(query, key, value, output, query.new_empty(batch, heads, length, dtype=torch.float32))
        return output

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return tuple(torch.empty_like(it) for it in ctx.saved_tensors[:3])


def attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any = None, **_: Any
) -> tuple[Tensor, None]:
    """Return an output shaped as transformers asks for: (batch, length, heads, head_dim), in autocast's dtype."""
    if torch.is_autocast_enabled("cpu"):
        query, key, value = (it.to(torch.get_autocast_dtype("cpu")) for it in (query, key, value))
    return _Fused.apply(query, key, value), None


class _Kept(torch.autograd.Function):
    """A fused kernel of one input: keeps it, and its output has the same shape and dtype."""

    @staticmethod
    def forward(ctx: Any, *inputs: Tensor) -> Tensor:
        ctx.save_for_backward(*inputs)
        return torch.empty_like(inputs[0])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return tuple(torch.empty_like(it) for it in ctx.saved_tensors)


class _Norm(nn.Module):
    def forward(self, hidden: Tensor) -> Tensor:
        """Liger's RMSNorm keeps its input, and a number a row."""
        return _Kept.apply(hidden)


class _GatedMlp(nn.Module):
    def __init__(self, mlp: Any) -> None:
        super().__init__()
        self.gate_proj, self.up_proj, self.down_proj = mlp.gate_proj, mlp.up_proj, mlp.down_proj

    def forward(self, hidden: Tensor) -> Tensor:
        """Liger's SwiGLU and GeGLU keep both projections, not the activation between."""
        return self.down_proj(_Kept.apply(self.gate_proj(hidden), self.up_proj(hidden)))


class _Dropout(nn.Module):
    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, hidden: Tensor) -> Tensor:
        """On a GPU dropout keeps a byte for each element, on a CPU a number."""
        return torch.native_dropout(hidden, self.p, True)[0]


def replacement(module: Any, layer_kernels: bool) -> nn.Module | None:
    """Return what stands in for a module, None where it may stay; `layer_kernels`: Liger's or the Hub's are used."""
    if isinstance(module, nn.Dropout) and module.p:
        return _Dropout(module.p)
    if not layer_kernels:
        return None
    if type(module).__name__.endswith("RMSNorm"):
        return _Norm()
    names = {name for name, _ in module.named_children()}
    return _GatedMlp(module) if {"gate_proj", "up_proj", "down_proj"} <= names else None
