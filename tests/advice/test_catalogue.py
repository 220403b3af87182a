"""What public sources tell of kernels: complete for what the Hub is known to have, and each with its source."""

from __future__ import annotations

import pytest

from kerneltui.advice.catalogue import FEATURES, ROLES, catalogue, role_of
from kerneltui.advice.known import forward_only, unfit_for_training
from tests.advice.situations import COMMUNITY
from tests.hub.repositories import kernel_repositories

ATTENTION = ("flash-attn2", "flash-attn3", "vllm-flash-attn3", "flash-attn4", "aiter-flash-attn")


def test_every_repository_of_the_community_has_a_role_and_a_dated_source() -> None:
    known = catalogue()
    for repository in kernel_repositories():
        kernel = known[repository.id]
        assert kernel.role in ROLES
        assert kernel.source.startswith("https://")
        assert kernel.date == "2026-08-21"


@pytest.mark.parametrize("name", ATTENTION)
def test_what_training_may_need_is_told_of_the_kernels_that_can_train(name: str) -> None:
    kernel = catalogue()[f"{COMMUNITY}/{name}"]
    assert (kernel.callable, kernel.backward, kernel.unfit) == (True, "yes", None)
    assert [feature for feature, words in kernel.features().items() if not words] == []
    assert list(kernel.features()) == list(FEATURES)
    assert kernel.files


def test_what_has_no_backward_or_cannot_be_called_says_why_it_does_not_train() -> None:
    for kernel in catalogue().values():
        fit = kernel.role == "attention" and kernel.callable is not False and kernel.backward not in ("no", "partly")
        assert (kernel.unfit is None) == fit, kernel.id
        assert (unfit_for_training(kernel.id) is None) == fit


def test_attention_for_inference_is_told_from_what_is_no_attention() -> None:
    assert f"{COMMUNITY}/sage-attention" in forward_only()
    assert not {f"{COMMUNITY}/relu", f"{COMMUNITY}/mra", "shi-labs/natten"} & set(forward_only())


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("somebody/my-flash-attention", "attention"),
        ("somebody/flash_attn", "attention"),
        ("somebody/fused-moe", "MoE"),
        ("somebody/fp8_gemm", "quantization"),
        ("somebody/rms-norm", "layers"),
        ("somebody/thing", None),
        ("attention/thing", None),
    ],
)
def test_a_name_tells_what_a_kernel_is_for_where_no_source_does(name: str, role: str | None) -> None:
    assert role_of(name) == role
