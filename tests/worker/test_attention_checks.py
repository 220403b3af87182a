"""Each kernel that is wrong in its own way is caught for what it is; one process, torch alone."""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from kerneltui.worker.attention_cases import Case, Inputs, Shape, make_inputs, plan_cases, reference
from kerneltui.worker.attention_checks import BrokenDeviceError, error_of, try_case
from tests.worker.faults import DEMO, spoil

GROUPED = {"heads": 4, "kv_heads": 2, "head_dim": 16}


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """Small tensors wait for threads longer than they take."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@functools.cache
def _demo() -> Any:
    spec = importlib.util.spec_from_file_location("demo_attention", DEMO / "demo_attention.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["demo_attention"] = module
    spec.loader.exec_module(module)
    return module


def _flash(fault: str) -> Callable[[Case, Inputs], Tensor]:
    """Return an attention function over a kernel, which is called as transformers calls flash attention."""
    dense, varlen = spoil(fault, _demo().flash_attn_func, _demo().flash_attn_varlen_func)

    def attend(case: Case, inputs: Inputs) -> Tensor:
        q, k, v = (it.transpose(1, 2) for it in (inputs.q, inputs.k, inputs.v))
        options: dict[str, Any] = {"causal": True, "softmax_scale": case.shape.scaling}
        if case.shape.window is not None:
            options["window_size"] = (case.shape.window - 1, case.shape.window - 1)
        if case.layout == "dense":
            return dense(q, k, v, **options)
        kept = (case.documents() >= 0).flatten().nonzero().flatten()
        ends = torch.tensor((0, *case.lengths)).cumsum(0).int()
        flat = [it.reshape(-1, *it.shape[2:])[kept] for it in (q, k, v)]
        longest = max(case.lengths)
        lengths = {"cu_seqlens_q": ends, "cu_seqlens_k": ends, "max_seqlen_q": longest, "max_seqlen_k": longest}
        found = varlen(*flat, **lengths, **options)
        whole = torch.zeros(case.rows * case.length, *found.shape[1:], dtype=found.dtype)
        return whole.index_copy(0, kept, found).view(case.rows, case.length, *found.shape[1:])

    return attend


def _checks(fault: str, dtype: str = "float32", **shape: Any) -> list[dict[str, Any]]:
    cases = plan_cases([{**GROUPED, **shape}], dtype, 64, "cpu")
    return [check for case in cases for check in try_case(_flash(fault), _flash("none"), case)]


def _failed(checks: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for check in checks:
        if check["outcome"] == "failed":
            found.setdefault(check["name"], []).append(check)
    return found


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_right_kernel_passes_everything(dtype: str) -> None:
    checks = _checks("none", dtype, window=32)
    assert {check["outcome"] for check in checks} == {"passed"}
    assert {check["name"] for check in checks} == {
        *("backward", "finite", "forward", "gradient.q", "gradient.k", "gradient.v", "repeat", "borders"),
    }


def test_a_backward_that_raises_for_grouped_heads() -> None:
    failed = _failed(_checks("backward_raises"))
    assert list(failed) == ["backward"]
    assert len(failed["backward"]) == 5  # in every case
    for check in failed["backward"]:
        assert check["only"][0] == "grouped heads"
        assert check["reason"].startswith("it raised RuntimeError: Dimension out of range")


def test_a_gradient_of_k_that_is_wrong_by_a_factor() -> None:
    failed = _failed(_checks("gradient_of_k"))
    assert list(failed) == ["gradient.k"]
    assert {check["reason"] for check in failed["gradient.k"]} == {
        "0.5 away from the reference: it is the right one times 0.5"
    }
    assert {tuple(check["only"]) for check in failed["gradient.k"]} == {()}


def test_a_kernel_that_leaks_across_packed_borders() -> None:
    failed = _failed(_checks("leaks"))
    assert "borders" in failed and {check["case"].split()[0] for check in failed["borders"]} == {"packed"}
    assert failed["borders"][0]["reason"] == "a packed sequence sees those before it"
    packed = [check for check in failed["forward"] if check["case"].startswith("packed")]
    assert packed[0]["reason"].endswith("it is right for no borders between sequences, so that is ignored")


def test_not_a_number_for_odd_lengths() -> None:
    failed = _failed(_checks("odd_nan"))
    assert list(failed) == ["finite"]
    assert {check["case"].split(",")[0] for check in failed["finite"]} == {"dense 65", "packed 5+64+91+34"}
    assert all("odd lengths" in check["only"] for check in failed["finite"])
    assert failed["finite"][0]["reason"].startswith("the output, the gradient of q")


def test_a_window_that_is_ignored() -> None:
    failed = _failed(_checks("ignores_window", window=32))
    assert all("window" in check["only"] for checks in failed.values() for check in checks)
    assert failed["forward"][0]["reason"].endswith("it is right for no window, so that is ignored")


def test_an_output_without_gradient() -> None:
    failed = _failed(_checks("no_gradient"))
    assert list(failed) == ["backward"]
    assert failed["backward"][0]["reason"] == "its output has no gradient: nothing before attention would learn"


def test_a_kernel_that_is_right_in_float32_only() -> None:
    assert not _failed(_checks("float32_only", "float32"))
    failed = _failed(_checks("float32_only", "bfloat16"))
    assert "forward" in failed
    assert all(check["only"][0] in ("head dimension 16", "bfloat16") for check in failed["forward"])
    assert all("bfloat16" in check["only"] for check in failed["forward"])


def test_what_there_is_no_memory_for_is_skipped_with_its_reason() -> None:
    def attend(case: Case, inputs: Inputs) -> Tensor:
        raise torch.OutOfMemoryError("CUDA out of memory")

    (check,) = try_case(attend, None, plan_cases([GROUPED], "float32", 64, "cpu")[0])
    assert check["outcome"] == "skipped" and "memory" in check["reason"]


def test_a_broken_context_ends_the_process_instead_of_being_a_check() -> None:
    def attend(case: Case, inputs: Inputs) -> Tensor:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    with pytest.raises(BrokenDeviceError, match="illegal memory access"):
        try_case(attend, None, plan_cases([GROUPED], "float32", 64, "cpu")[0])


def test_the_reference_is_what_float64_attention_gives() -> None:
    shape = Shape(heads=4, kv_heads=2, head_dim=8, window=5, scale=0.3)
    case = Case(shape, "packed", (3, 7), torch.float32)
    inputs = make_inputs(case)
    truth = reference(case, inputs)
    q, k, v = (it.detach().double().requires_grad_() for it in (inputs.q, inputs.k, inputs.v))
    output = torch.nn.functional.scaled_dot_product_attention(
        q, k, v, case.visible()[:, None], scale=0.3, enable_gqa=True
    ).transpose(1, 2)
    found = torch.autograd.grad(output, (q, k, v), inputs.gradient.double())
    assert error_of(output.detach(), truth.output) < 1e-14
    for name, gradient in zip("qkv", found, strict=True):
        assert error_of(gradient, truth.gradients[name]) < 1e-14


def test_inputs_reach_toward_a_softcap() -> None:
    shape = Shape(heads=4, kv_heads=2, head_dim=16, softcap=30.0)
    case = Case(shape, "dense", (64,), torch.float32)
    inputs = make_inputs(case)
    scores = inputs.q @ inputs.k.repeat_interleave(2, 1).transpose(-1, -2) * shape.scaling
    assert 4 < float(scores.detach().std()) < 8
