"""The kernel that the loopback Hub serves: right against torch's own attention, forward and backward."""

from __future__ import annotations

import importlib
import itertools
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
kernel: Any = importlib.import_module("tests.hub.kernel")

HEADS = [(4, 4), (4, 2), (4, 1)]
WINDOWS = [(-1, -1), (2, 0), (2, 1), (0, 0)]


def tensors(batch: int, queries: int, keys: int, heads: tuple[int, int]) -> Any:
    """Return q, k and v in double precision with gradients."""
    generator = torch.Generator().manual_seed(1)

    def tensor(length: int, count: int) -> Any:
        made = torch.randn(batch, length, count, 8, generator=generator, dtype=torch.float64)
        return made.requires_grad_()

    return tensor(queries, heads[0]), tensor(keys, heads[1]), tensor(keys, heads[1])


def visible(queries: int, keys: int, causal: bool, window: tuple[int, int]) -> Any:
    """Return which key each query sees, written down one by one from flash-attn's definition."""
    mask = torch.zeros(queries, keys, dtype=torch.bool)
    for query, key in itertools.product(range(queries), range(keys)):
        here = query + keys - queries
        left = window[0] < 0 or key >= here - window[0]
        right = key <= here if causal else window[1] < 0 or key <= here + window[1]
        mask[query, key] = left and right
    return mask


def expected(q: Any, k: Any, v: Any, causal: bool, window: tuple[int, int], scale: float | None = None) -> Any:
    """Return torch's attention over the same keys."""
    mask = visible(q.shape[1], k.shape[1], causal, window)
    turned = [it.transpose(1, 2) for it in (q, k, v)]
    attention = torch.nn.functional.scaled_dot_product_attention
    return attention(*turned, attn_mask=mask, scale=scale, enable_gqa=True).transpose(1, 2)


def assert_same(ours: Any, theirs: Any, inputs: Any) -> None:
    """Compare outputs and gradients."""
    torch.testing.assert_close(ours, theirs)
    weight = torch.linspace(-1, 1, ours.numel(), dtype=ours.dtype).view_as(ours)
    gradients = [torch.autograd.grad((out * weight).sum(), inputs) for out in (ours, theirs)]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("window", WINDOWS)
def test_dense(heads: tuple[int, int], causal: bool, window: tuple[int, int]) -> None:
    q, k, v = tensors(2, 6, 6, heads)
    ours = kernel.flash_attn_func(q, k, v, causal=causal, window_size=window, softmax_scale=0.3)
    assert_same(ours, expected(q, k, v, causal, window, scale=0.3), (q, k, v))


@pytest.mark.parametrize("window", [(-1, -1), (3, 0)])
def test_last_query_sees_the_last_key(window: tuple[int, int]) -> None:
    q, k, v = tensors(1, 2, 7, (4, 2))
    ours = kernel.flash_attn_func(q, k, v, causal=True, window_size=window)
    assert_same(ours, expected(q, k, v, True, window), (q, k, v))


def test_a_query_without_keys_gets_zeros_and_no_nan() -> None:
    q, k, v = tensors(1, 5, 2, (2, 2))
    out = kernel.flash_attn_func(q, k, v, causal=True)
    assert (out[:, :3] == 0).all()
    out.sum().backward()
    assert all(torch.isfinite(it.grad).all() for it in (q, k, v))


def test_softcap_bounds_the_scores() -> None:
    q, k, v = tensors(1, 5, 5, (2, 2))
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / 8**0.5
    weights = torch.softmax(2 * torch.tanh(scores / 2), dim=-1)
    theirs = torch.einsum("bhqk,bkhd->bqhd", weights, v)
    assert_same(kernel.flash_attn_func(q, k, v, softcap=2.0), theirs, (q, k, v))


@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize("causal", [True, False])
def test_varlen_is_dense_sequence_by_sequence(heads: tuple[int, int], causal: bool) -> None:
    lengths = [3, 1, 5]
    bounds = torch.tensor([0, 3, 4, 9], dtype=torch.int32)
    q, k, v = tensors(1, 9, 9, heads)
    ours = kernel.flash_attn_varlen_func(q[0], k[0], v[0], bounds, bounds, 5, 5, causal=causal, window_size=(2, 2))
    parts = [it.split(lengths, dim=1) for it in (q, k, v)]
    theirs = torch.cat([expected(q, k, v, causal, (2, 2))[0] for q, k, v in zip(*parts, strict=True)])
    assert_same(ours, theirs, (q, k, v))


def test_tokens_after_the_last_sequence_get_zeros() -> None:
    q, k, v = tensors(1, 6, 6, (2, 2))
    bounds = torch.tensor([0, 4], dtype=torch.int32)
    out = kernel.flash_attn_varlen_func(q[0], k[0], v[0], bounds, bounds, 4, 4)
    assert out.shape == (6, 2, 8)
    assert (out[4:] == 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_dtype_stays(dtype: Any) -> None:
    q, k, v = (it.detach().to(dtype) for it in tensors(1, 4, 4, (2, 2)))
    assert kernel.flash_attn_func(q, k, v).dtype == dtype


def test_dropout_drops_and_keeps_the_mean() -> None:
    q, k, _ = tensors(1, 64, 64, (2, 2))
    ones = torch.ones_like(k)
    torch.manual_seed(0)
    out = kernel.flash_attn_func(q, k, ones, dropout_p=0.5)
    assert out.std() > 0.01
    assert abs(out.mean().item() - 1) < 0.1


def test_calls_are_counted() -> None:
    q, k, v = tensors(1, 4, 4, (2, 2))
    before = dict(kernel.CALLS)
    kernel.flash_attn_func(q, k, v)
    bounds = torch.tensor([0, 4], dtype=torch.int32)
    kernel.flash_attn_varlen_func(q[0], k[0], v[0], bounds, bounds, 4, 4)
    assert {name: count - before[name] for name, count in kernel.CALLS.items()} == {"dense": 1, "varlen": 1}


def test_what_it_cannot_do_it_refuses() -> None:
    q, k, v = tensors(1, 4, 4, (2, 2))
    with pytest.raises(NotImplementedError):
        kernel.flash_attn_func(q, k, v, return_attn_probs=True)
