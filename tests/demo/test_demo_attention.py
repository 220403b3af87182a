"""The demo's attention kernel against torch's scaled_dot_product_attention, forward and backward."""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from kerneltui import demo

WINDOWS = [(-1, -1), (3, 3), (3, 0), (-1, 2)]


def load(path: Path) -> ModuleType:
    """Import a build as kernels does it: by path, under the name that its metadata gives."""
    spec = importlib.util.spec_from_file_location(f"_test_{path.parent.name.replace('-', '_')}", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def kernel() -> ModuleType:
    return load(demo.attention_path() / "build" / "torch-cpu" / "__init__.py")


def tensors(
    *shape_q: int, length_k: int, heads_k: int, dtype: torch.dtype = torch.float64, device: str = "cpu"
) -> list[Tensor]:
    """Return q (batch, length, heads, head_dim), k, v and a gradient for the output."""
    torch.manual_seed(0)
    batch, length_q, heads, size = shape_q
    shapes = [(batch, length_q, heads, size), *[(batch, length_k, heads_k, size)] * 2, shape_q]
    made = [torch.randn(shape, dtype=dtype, device=device) for shape in shapes]
    return [*(tensor.requires_grad_() for tensor in made[:3]), made[3]]


def mask(length_q: int, length_k: int, causal: bool, window: tuple[int, int]) -> Tensor:
    """Return what each query sees, one pair after the other, as flash-attn's README states it."""
    left, right = window[0], 0 if causal else window[1]
    seen = torch.zeros(length_q, length_k, dtype=torch.bool)
    for i in range(length_q):
        for j in range(length_k):
            ahead = j - (i + length_k - length_q)
            seen[i, j] = (left < 0 or ahead >= -left) and (right < 0 or ahead <= right)
    return seen


def expected(q: Tensor, k: Tensor, v: Tensor, seen: Tensor, **options: Any) -> Tensor:
    """Return the attention of dense tensors with the heads of k and v repeated."""
    groups = q.shape[2] // k.shape[2]
    k, v = k.repeat_interleave(groups, dim=2), v.repeat_interleave(groups, dim=2)
    q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
    return scaled_dot_product_attention(q, k, v, seen, **options).transpose(1, 2)


def assert_same(inputs: list[Tensor], found: Tensor, wanted: Tensor, gradient: Tensor, **tolerance: float) -> None:
    """Compare two outputs and their gradients."""
    torch.testing.assert_close(found, wanted)
    gradients = (torch.autograd.grad(output, inputs, gradient) for output in (found, wanted))
    for found_gradient, wanted_gradient in zip(*gradients, strict=True):
        torch.testing.assert_close(found_gradient, wanted_gradient)


@pytest.mark.parametrize("heads_k", [4, 2, 1])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("length_k", [9, 13])
@pytest.mark.parametrize("deterministic", [True, False])
def test_dense_equals_sdpa(
    kernel: ModuleType,
    heads_k: int,
    causal: bool,
    window: tuple[int, int],
    length_k: int,
    deterministic: bool,
) -> None:
    q, k, v, gradient = tensors(2, 9, 4, 8, length_k=length_k, heads_k=heads_k)
    found = kernel.flash_attn_func(
        q, k, v, softmax_scale=0.3, causal=causal, window_size=window, deterministic=deterministic
    )
    wanted = expected(q, k, v, mask(9, length_k, causal, window), scale=0.3)
    assert_same([q, k, v], found, wanted, gradient)


@pytest.mark.parametrize("window", WINDOWS)
def test_varlen_is_each_sequence_by_itself(kernel: ModuleType, window: tuple[int, int]) -> None:
    q, k, v, gradient = (tensor[0] for tensor in tensors(1, 17, 4, 8, length_k=17, heads_k=2))
    # An empty sequence in the middle, and two rows of padding behind the last one.
    bounds = [0, 5, 5, 6, 15]
    cumulative = torch.tensor(bounds, dtype=torch.int32)
    found = kernel.flash_attn_varlen_func(
        q, k, v, cumulative, cumulative, torch.tensor(9), 9, causal=True, window_size=window
    )
    assert found.shape == q.shape
    pieces = []
    for start, end in ((0, 5), (5, 6), (6, 15)):
        seen = mask(end - start, end - start, True, window)
        pieces.append(expected(q[None, start:end], k[None, start:end], v[None, start:end], seen)[0])
    assert_same([q, k, v], found[:15], torch.cat(pieces), gradient[:15])


def test_fewer_queries_than_keys_stand_at_the_end(kernel: ModuleType) -> None:
    q, k, v, gradient = (tensor[0] for tensor in tensors(1, 3, 4, 8, length_k=11, heads_k=2))
    cumulative_q = torch.tensor([0, 1, 3], dtype=torch.int32)
    cumulative_k = torch.tensor([0, 4, 11], dtype=torch.int32)
    found = kernel.flash_attn_varlen_func(q, k, v, cumulative_q, cumulative_k, 2, 7, causal=True)
    first = expected(q[None, :1], k[None, :4], v[None, :4], mask(1, 4, True, (-1, -1)))[0]
    second = expected(q[None, 1:], k[None, 4:], v[None, 4:], mask(2, 7, True, (-1, -1)))[0]
    assert_same([q, k, v], found, torch.cat([first, second]), gradient)


@pytest.mark.parametrize("deterministic", [True, False])
def test_a_query_without_a_key_gives_zeros_and_finite_gradients(kernel: ModuleType, deterministic: bool) -> None:
    q, k, v, gradient = tensors(1, 6, 4, 8, length_k=4, heads_k=2)
    found = kernel.flash_attn_func(q, k, v, causal=True, deterministic=deterministic)
    assert (found[:, :2] == 0).all()
    wanted = expected(q[:, 2:], k, v, mask(4, 4, True, (-1, -1)))
    assert_same([q, k, v], found[:, 2:], wanted, gradient[:, 2:])
    again = kernel.flash_attn_func(q, k, v, causal=True, deterministic=deterministic)
    assert all(part.isfinite().all() for part in torch.autograd.grad(again.sum(), [q, k, v]))


def test_no_key_at_all_gives_zeros(kernel: ModuleType) -> None:
    q, k, v, _ = (tensor[0] for tensor in tensors(1, 2, 4, 8, length_k=0, heads_k=2))
    ends_q, ends_k = torch.tensor([0, 2], dtype=torch.int32), torch.tensor([0, 0], dtype=torch.int32)
    assert (kernel.flash_attn_varlen_func(q, k, v, ends_q, ends_k, 2, 0) == 0).all()


def test_softcap_bounds_the_scores(kernel: ModuleType) -> None:
    q, k, v, gradient = tensors(1, 5, 2, 8, length_k=5, heads_k=2)
    found = kernel.flash_attn_func(q, k, v, softcap=2.0)
    scores = 2.0 * torch.tanh(torch.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(8) / 2.0)
    wanted = torch.einsum("bhij,bjhd->bihd", scores.softmax(-1), v)
    assert_same([q, k, v], found, wanted, gradient)


def test_dropout_reaches_both_ways_of_computing(kernel: ModuleType) -> None:
    q, k, v, _ = tensors(1, 16, 4, 8, length_k=16, heads_k=4, dtype=torch.float32)
    plain = kernel.flash_attn_func(q, k, v)
    for deterministic in (True, False):
        dropped = kernel.flash_attn_func(q, k, v, dropout_p=0.5, deterministic=deterministic)
        assert not torch.allclose(dropped, plain)


def test_the_calls_are_counted(kernel: ModuleType) -> None:
    q, k, v, _ = tensors(1, 4, 4, 8, length_k=4, heads_k=2)
    ends = torch.tensor([0, 4], dtype=torch.int32)
    kernel.flash_attn_func(q, k, v)
    kernel.flash_attn_func(q, k, v)
    kernel.flash_attn_varlen_func(q[0], k[0], v[0], ends, ends, 4, 4)
    assert kernel.CALLS == {"dense": 2, "varlen": 1}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("heads_k", [4, 2, 1])
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("causal", [True, False])
def test_torch_flash_attention_on_a_gpu(
    monkeypatch: pytest.MonkeyPatch, heads_k: int, window: tuple[int, int], causal: bool
) -> None:
    kernel = load(demo.attention_path() / "build" / "torch-cuda" / "__init__.py")
    monkeypatch.delattr(kernel, "_attend")  # so that it cannot be what ran
    q, k, v, gradient = tensors(2, 40, 4, 16, length_k=56, heads_k=heads_k, dtype=torch.bfloat16, device="cuda")
    found = kernel.flash_attn_func(q, k, v, causal=causal, window_size=window)
    exact = [tensor.detach().double().requires_grad_() for tensor in (q, k, v)]
    exact_q, exact_k, exact_v = exact
    wanted = expected(exact_q, exact_k, exact_v, mask(40, 56, causal, window).cuda())
    for found_part, wanted_part in zip(
        (found, *torch.autograd.grad(found, [q, k, v], gradient)),
        (wanted, *torch.autograd.grad(wanted, exact, gradient.double())),
        strict=True,
    ):
        assert ((found_part.double() - wanted_part).norm() / wanted_part.norm()) < 0.01


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("window", WINDOWS)
def test_torch_flash_attention_on_packed_rows(monkeypatch: pytest.MonkeyPatch, window: tuple[int, int]) -> None:
    kernel = load(demo.attention_path() / "build" / "torch-cuda" / "__init__.py")
    half, device = torch.bfloat16, "cuda"
    q, k, v, gradient = (t[0] for t in tensors(1, 60, 4, 16, length_k=60, heads_k=2, dtype=half, device=device))
    ends = torch.tensor([0, 7, 8, 60], dtype=torch.int32, device=device)
    exact = [tensor.detach().double().requires_grad_() for tensor in (q, k, v)]
    wanted = kernel.flash_attn_varlen_func(*exact, ends, ends, 52, 52, causal=True, window_size=window)
    monkeypatch.delattr(kernel, "_attend")
    found = kernel.flash_attn_varlen_func(q, k, v, ends, ends, ends.diff().max(), 52, causal=True, window_size=window)
    for found_part, wanted_part in zip(
        (found, *torch.autograd.grad(found, [q, k, v], gradient)),
        (wanted, *torch.autograd.grad(wanted, exact, gradient.double())),
        strict=True,
    ):
        assert ((found_part.double() - wanted_part).norm() / wanted_part.norm()) < 0.01
