"""Attention in plain PyTorch under flash-attn's names: a kernel that runs anywhere, for the loopback Hub.

The interface is that of the flash-attn2 kernel as transformers calls it. `CALLS` counts calls of this
process; at its end they are written as JSON to the file that KERNELTUI_TEST_CALLS names, from which a test
learns that the kernel really ran.
"""

import atexit
import json
import math
import os
from itertools import pairwise
from pathlib import Path

import torch

CALLS = {"dense": 0, "varlen": 0}


def flash_attn_func(
    q,
    k,
    v,
    dropout_p=0.0,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    softcap=0.0,
    alibi_slopes=None,
    deterministic=False,
    return_attn_probs=False,
):
    """Return attention of shape (batch, queries, heads, head_dim); `k` and `v` may have fewer heads."""
    _refuse(alibi_slopes, return_attn_probs)
    CALLS["dense"] += 1
    return _attention(q, k, v, dropout_p, softmax_scale, causal, window_size, softcap)


def flash_attn_varlen_func(
    q,
    k,
    v,
    cu_seqlens_q,
    cu_seqlens_k,
    max_seqlen_q,
    max_seqlen_k,
    dropout_p=0.0,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    softcap=0.0,
    alibi_slopes=None,
    deterministic=False,
    return_attn_probs=False,
):
    """Return attention of shape (tokens, heads, head_dim) over sequences that lie one after the other.

    `cu_seqlens_q` and `cu_seqlens_k` are the positions where they begin, with the number of tokens at the
    end.
    """
    _refuse(alibi_slopes, return_attn_probs)
    CALLS["varlen"] += 1
    bounds_q, bounds_k = cu_seqlens_q.tolist(), cu_seqlens_k.tolist()
    options = (dropout_p, softmax_scale, causal, window_size, softcap)
    parts = [
        _attention(q[None, begin_q:end_q], k[None, begin_k:end_k], v[None, begin_k:end_k], *options)[0]
        for (begin_q, end_q), (begin_k, end_k) in zip(pairwise(bounds_q), pairwise(bounds_k), strict=True)
    ]
    rest = q[bounds_q[-1] :]  # tokens after the last sequence belong to none
    return torch.cat([*parts, torch.zeros_like(rest)])


def _attention(q, k, v, dropout_p, softmax_scale, causal, window_size, softcap):
    groups = q.shape[2] // k.shape[2]
    k, v = (tensor.repeat_interleave(groups, dim=2) for tensor in (k, v))
    scale = 1 / math.sqrt(q.shape[-1]) if softmax_scale is None else softmax_scale
    precise = torch.promote_types(q.dtype, torch.float32)
    scores = torch.einsum("bqhd,bkhd->bhqk", q.to(precise), k.to(precise)) * scale
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    visible = _visible(q.shape[1], k.shape[1], causal, window_size, q.device)
    scores = scores.masked_fill(~visible, float("-inf"))
    # A query that sees no key gets zeros, as in flash-attn; a softmax over nothing would be NaN.
    blind = ~visible.any(-1, keepdim=True)
    weights = torch.softmax(scores.masked_fill(blind, 0.0), dim=-1).masked_fill(blind, 0.0)
    weights = torch.nn.functional.dropout(weights, p=dropout_p, training=dropout_p > 0)
    return torch.einsum("bhqk,bkhd->bqhd", weights, v.to(precise)).to(q.dtype)


def _visible(queries, keys, causal, window_size, device):
    """Return a (queries, keys) mask; the last query is aligned with the last key, as since flash-attn 2.1."""
    left, right = window_size
    right = 0 if causal else right
    position = torch.arange(queries, device=device)[:, None] + keys - queries
    key = torch.arange(keys, device=device)[None, :]
    visible = torch.ones(queries, keys, dtype=torch.bool, device=device)
    if left >= 0:
        visible &= key >= position - left
    if right >= 0:
        visible &= key <= position + right
    return visible


def _refuse(*unsupported):
    if any(value is not None and value is not False for value in unsupported):
        raise NotImplementedError("the test kernel has no ALiBi and returns no attention probabilities")


def _write_calls(path, pid):
    if os.getpid() == pid:  # not in a child that was forked and inherited this
        Path(path).write_text(json.dumps(CALLS))


if "KERNELTUI_TEST_CALLS" in os.environ:
    atexit.register(_write_calls, os.environ["KERNELTUI_TEST_CALLS"], os.getpid())
