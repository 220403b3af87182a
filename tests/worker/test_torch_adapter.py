"""What torch tells of its build and its devices: stand-ins for machines nobody has at hand, and the installed torch."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from kerneltui.worker import library_tables, torch_adapter


def fake_torch(
    *devices: Any,
    cuda: str | None = "13.0",
    hip: str | None = None,
    mps: bool = False,
    error: Exception | None = None,
    archs: str | None = "sm_80 sm_90 compute_90",
    cudnn: int | None = 91900,
) -> Any:
    def init() -> None:
        if error:
            raise error

    backend = SimpleNamespace(
        init=init,
        get_arch_list=lambda: (archs or "").split() if devices else [],
        is_available=lambda: bool(devices),
        device_count=lambda: len(devices),
        get_device_properties=lambda number: devices[number],
        is_bf16_supported=lambda including_emulation: True,
    )
    return SimpleNamespace(
        __version__="2.13.0",
        compiled_with_cxx11_abi=lambda: True,
        cuda=backend,
        version=SimpleNamespace(cuda=cuda, hip=hip),
        backends=SimpleNamespace(
            mps=SimpleNamespace(is_available=lambda: mps), cudnn=SimpleNamespace(version=lambda: cudnn)
        ),
        _C=SimpleNamespace(_cuda_getArchFlags=lambda: archs),
    )


def test_a_cuda_device() -> None:
    card = SimpleNamespace(
        name="NVIDIA H200",
        uuid="1111-2222",
        pci_domain_id=0,
        pci_bus_id=0x3B,
        pci_device_id=0,
        major=9,
        minor=0,
        total_memory=150_000,
    )
    assert torch_adapter.read_devices(fake_torch(card)) == [
        {
            "torch_index": 0,
            "name": "NVIDIA H200",
            "uuid": "1111-2222",
            "pci": "00000000:3B:00.0",
            "capability": [9, 0],
            "memory_total": 150_000,
            "memory_unified": False,
        }
    ]


def test_a_gpu_that_is_a_part_of_the_processor() -> None:
    """A GB10, or the memory of an Apple GPU."""
    card = SimpleNamespace(name="NVIDIA GB10", major=12, minor=1, total_memory=120, is_integrated=1)
    for torch in (fake_torch(card), fake_torch(mps=True)):
        assert [device["memory_unified"] for device in torch_adapter.read_devices(torch)] == [True]


def test_an_amd_device_has_no_cuda_capability() -> None:
    card = SimpleNamespace(name="AMD Instinct MI300X", major=9, minor=4, total_memory=192)
    (device,) = torch_adapter.read_devices(fake_torch(card, hip="6.4.0"))
    assert (device["name"], device["capability"], device["uuid"], device["pci"]) == (
        card.name,
        None,
        None,
        None,
    )


def test_an_apple_device() -> None:
    assert [device["name"] for device in torch_adapter.read_devices(fake_torch(mps=True))] == ["Apple GPU (MPS)"]


def test_torch_says_itself_why_it_can_use_no_gpu() -> None:
    words = "The NVIDIA driver on your system is too old (found version 11040)."
    unavailable: dict[str, str] = {}
    torch = fake_torch(error=RuntimeError(words))
    assert library_tables.attempt("devices", lambda: torch_adapter.read_devices(torch), unavailable) is None
    assert unavailable == {"devices": words}


@pytest.mark.parametrize(("number", "version"), [(91900, "9.19.0"), (90701, "9.7.1"), (8902, "8.9.2")])
def test_cudnn_s_number_is_a_version(number: int, version: str) -> None:
    assert torch_adapter.read_cudnn(fake_torch(cudnn=number)) == version


@pytest.mark.parametrize(
    ("torch", "words"),
    [
        (fake_torch(cudnn=None), "built without cuDNN"),
        (fake_torch(cuda=None), "not built for CUDA"),
        # What torch then calls cuDNN is MIOpen.
        (fake_torch(cuda=None, hip="6.4", cudnn=30400), "not built for CUDA"),
    ],
)
def test_no_cudnn_has_its_reason(torch: Any, words: str) -> None:
    with pytest.raises(RuntimeError, match=words):
        torch_adapter.read_cudnn(torch)


def test_architectures_are_told_also_where_no_device_is_to_be_seen() -> None:
    assert torch_adapter.read_arch_list(fake_torch()) == ["sm_80", "sm_90", "compute_90"]
    assert torch_adapter.read_arch_list(fake_torch(SimpleNamespace())) == ["sm_80", "sm_90", "compute_90"]
    assert torch_adapter.read_arch_list(fake_torch(cuda=None, hip="6.4", archs="gfx942")) == ["gfx942"]


@pytest.mark.parametrize(
    ("torch", "words"), [(fake_torch(cuda=None), "CUDA or ROCm only"), (fake_torch(archs=None), "does not tell")]
)
def test_no_architectures_have_their_reason(torch: Any, words: str) -> None:
    with pytest.raises(RuntimeError, match=words):
        torch_adapter.read_arch_list(torch)


def test_the_installed_torch_has_all_that_is_asked_of_it() -> None:
    """A contract: also `_cuda_getArchFlags`, which only a build for CUDA or ROCm has."""
    import torch

    answer = torch_adapter.read_torch()
    assert answer["version"] == torch.__version__
    assert answer["cxx11_abi"] is torch.compiled_with_cxx11_abi()
    assert answer["device_count"] == torch.cuda.device_count()
    if torch.version.cuda is None:
        assert answer["unavailable"]["arch_list"] == "told by a torch for CUDA or ROCm only"
    else:
        assert torch._C._cuda_getArchFlags().split() == answer["arch_list"]
        assert answer["cudnn"].count(".") == 2


MI300X = SimpleNamespace(name="AMD Instinct MI300X", major=9, minor=4, total_memory=192)


@pytest.mark.parametrize(
    ("torch", "told", "missing"),
    [
        (fake_torch(MI300X, cuda=None, hip="6.4", archs="gfx942"), ("6.4", ["gfx942"], 1, True), {"cudnn"}),
        (fake_torch(cuda=None, mps=True), (None, [], 1, None), {"cudnn", "arch_list", "bf16"}),
        (
            fake_torch(error=RuntimeError("No CUDA GPUs")),
            (None, ["sm_80", "sm_90", "compute_90"], 0, None),
            {"devices", "bf16"},
        ),
        (
            fake_torch(cuda=None, error=AssertionError("not compiled with CUDA")),
            (None, [], 0, None),
            {"cudnn", "arch_list", "devices", "bf16"},
        ),
    ],
    ids=["ROCm", "Mac", "CUDA without a device", "CPU build"],
)
def test_what_a_build_does_not_have_is_told_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, torch: Any, told: tuple[Any, ...], missing: set[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torch", torch)
    answer = torch_adapter.read_torch()
    assert (answer["hip"], answer["arch_list"], answer["device_count"], answer.get("bf16")) == told
    assert set(answer["unavailable"]) == missing
