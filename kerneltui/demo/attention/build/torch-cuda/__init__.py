"""Attention for the demo, with FlashAttention's two functions and what transformers asks of them.

This is a reference, made to be read and checked, not to be fast on a CPU: plain PyTorch everywhere, and torch's own
FlashAttention-2 where the tensors lie on a GPU that has it. It is the source of `build/*/__init__.py`; a kernel's
variants share no file, so `tests/tools/make_demo.py` copies it.

Shapes: dense tensors are (batch, length, heads, head_dim), packed ones (tokens, heads, head_dim). Keys and values may
have fewer heads than queries, if their number divides that of the queries.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["CALLS", "flash_attn_func", "flash_attn_varlen_func"]

CALLS: dict[str, int] = {"dense": 0, "varlen": 0}
"""How often each function was called in this process: the proof that the kernel ran."""


@dataclass(frozen=True)
class _Options:
    """What to compute. `left` and `right` are the keys seen on each side of a query's own place; -1 is all."""

    dropout: float
    scale: float | None
    left: int
    right: int
    softcap: float
    deterministic: bool


def flash_attn_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    deterministic: bool = False,
) -> Tensor:
    """Return the attention of dense `q` (batch, length, heads, head_dim) over `k` and `v`, shaped like `q`.

    `softmax_scale` defaults to 1/sqrt(head_dim). With `causal`, and for `window_size` (left, right; -1 is no limit),
    the last query stands at the last key, also when there are fewer queries than keys. A query that sees no key gives
    zeros. `softcap` bounds the scores by a tanh; 0 is none. All as in flash-attn 2.
    """
    CALLS["dense"] += 1
    options = _options(dropout_p, softmax_scale, causal, window_size, softcap, deterministic)
    if _has_flash(q, options):
        return _flash(q, k, v, None, None, q.shape[1], k.shape[1], options)
    return _attend(q, k, v, options)


def flash_attn_varlen_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int | Tensor,
    max_seqlen_k: int | Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    deterministic: bool = False,
) -> Tensor:
    """Return the attention of packed `q` (tokens, heads, head_dim), each sequence by itself, shaped like `q`.

    Sequence i is the rows `cu_seqlens_q[i]` to `cu_seqlens_q[i + 1]` of `q`, and those of `cu_seqlens_k` in `k` and
    `v` (both int32, one longer than the number of sequences). The other arguments are those of `flash_attn_func`.
    """
    CALLS["varlen"] += 1
    options = _options(dropout_p, softmax_scale, causal, window_size, softcap, deterministic)
    if _has_flash(q, options):
        # transformers hands the lengths over as tensors when it reads them off the position ids.
        return _flash(q, k, v, cu_seqlens_q, cu_seqlens_k, int(max_seqlen_q), int(max_seqlen_k), options)
    return _attend_by_sequence(q, k, v, cu_seqlens_q, cu_seqlens_k, options)


def _options(
    dropout: float,
    scale: float | None,
    causal: bool,
    window: tuple[int, int],
    softcap: float,
    deterministic: bool,
) -> _Options:
    """Return the options with `causal` written as a window that ends at the query's own place."""
    left, right = window
    return _Options(dropout, scale, left, 0 if causal else right, softcap, deterministic)


def _has_flash(q: Tensor, options: _Options) -> bool:
    """Return whether torch's FlashAttention-2 can do this (its limits: aten/native/transformers/cuda/flash_attn)."""
    return (
        q.is_cuda
        and q.dtype in (torch.float16, torch.bfloat16)
        and q.shape[-1] % 8 == 0
        and q.shape[-1] <= 256
        and not options.softcap
        and not options.deterministic  # its backward adds up the queries' gradient in any order
        and torch.cuda.get_device_capability(q.device) >= (8, 0)
    )


def _flash(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor | None,
    cu_seqlens_k: Tensor | None,
    max_q: int,
    max_k: int,
    options: _Options,
) -> Tensor:
    """Return what torch's own FlashAttention-2 gives; autograd knows its backward."""
    causal = options.right == 0 and options.left < 0
    output: Tensor = torch.ops.aten._flash_attention_forward(
        q, k, v, cu_seqlens_q, cu_seqlens_k, max_q, max_k, options.dropout, causal, False,
        scale=options.scale, window_size_left=options.left, window_size_right=options.right,
    )[0]  # fmt: skip
    return output


def _attend_by_sequence(
    q: Tensor, k: Tensor, v: Tensor, cu_seqlens_q: Tensor, cu_seqlens_k: Tensor, options: _Options
) -> Tensor:
    """Return the attention of packed tensors, one sequence after the other."""
    outputs = []
    spans_q, spans_k = pairwise(cu_seqlens_q.tolist()), pairwise(cu_seqlens_k.tolist())
    for (start_q, end_q), (start_k, end_k) in zip(spans_q, spans_k, strict=True):
        queries, keys, values = q[start_q:end_q], k[start_k:end_k], v[start_k:end_k]
        if len(queries) and len(keys):
            outputs.append(_attend(queries[None], keys[None], values[None], options)[0])
        else:
            outputs.append(torch.zeros_like(queries))
    # Rows behind the last sequence are padding.
    outputs.append(torch.zeros_like(q[int(cu_seqlens_q[-1]) :]))
    return torch.cat(outputs)


def _attend(q: Tensor, k: Tensor, v: Tensor, options: _Options) -> Tensor:
    """Return the attention of dense tensors in plain PyTorch."""
    q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
    length_q, length_k = q.shape[-2], k.shape[-2]
    visible = _visible(length_q, length_k, options, q.device)
    blind = None
    if visible is not None and length_q > length_k:
        # Only then can a query see no key. It may look at all of them here, so that softmax stays finite; its output
        # is replaced below, and no gradient comes back through it.
        blind = ~visible.any(dim=-1, keepdim=True)
        visible = visible | blind
    if options.softcap or options.deterministic:
        output = _explicit(q, k, v, visible, options)
    else:
        output = functional.scaled_dot_product_attention(
            q, k, v, visible, options.dropout, scale=options.scale, enable_gqa=True
        )
    if blind is not None:
        output = output.masked_fill(blind, 0.0)
    return output.transpose(1, 2)


def _visible(length_q: int, length_k: int, options: _Options, device: torch.device) -> Tensor | None:
    """Return which key (column) each query (row) sees, as booleans, or None where all see all."""
    if options.left < 0 and options.right < 0:
        return None
    place = torch.arange(length_q, device=device)[:, None] + (length_k - length_q)
    key = torch.arange(length_k, device=device)
    visible = torch.ones(length_q, length_k, dtype=torch.bool, device=device)
    if options.left >= 0:
        visible &= key >= place - options.left
    if options.right >= 0:
        visible &= key <= place + options.right
    return visible


def _explicit(q: Tensor, k: Tensor, v: Tensor, visible: Tensor | None, options: _Options) -> Tensor:
    """Return the attention step by step, where torch's fused functions lack a feature. Heads come second."""
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
    scale = q.shape[-1] ** -0.5 if options.scale is None else options.scale
    scores = (q @ k.transpose(-1, -2)).to(torch.promote_types(q.dtype, torch.float32)) * scale
    if options.softcap:
        scores = options.softcap * torch.tanh(scores / options.softcap)
    if visible is not None:
        scores = scores.masked_fill(~visible, float("-inf"))
    weights = functional.dropout(scores.softmax(dim=-1), options.dropout)
    return weights.to(v.dtype) @ v
