"""The probe's functions against stand-ins for torch and for the tables of transformers and TRL."""

from __future__ import annotations

import ast
import importlib.metadata
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from kerneltui.worker import library_tables, probe

FLASH = "transformers.modeling_flash_attention_utils"


def fake_torch(*devices: Any, hip: str | None = None, mps: bool = False, error: Exception | None = None) -> Any:
    def init() -> None:
        if error:
            raise error

    cuda = SimpleNamespace(
        init=init,
        is_available=lambda: bool(devices),
        device_count=lambda: len(devices),
        get_device_properties=lambda number: devices[number],
    )
    return SimpleNamespace(
        cuda=cuda,
        version=SimpleNamespace(cuda="13.0", hip=hip),
        backends=SimpleNamespace(mps=SimpleNamespace(is_available=lambda: mps)),
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
    assert probe.read_devices(fake_torch(card)) == [
        {
            "torch_index": 0,
            "name": "NVIDIA H200",
            "uuid": "1111-2222",
            "pci": "00000000:3B:00.0",
            "capability": [9, 0],
            "memory_total": 150_000,
        }
    ]


def test_an_amd_device_has_no_cuda_capability() -> None:
    card = SimpleNamespace(name="AMD Instinct MI300X", major=9, minor=4, total_memory=192)
    (device,) = probe.read_devices(fake_torch(card, hip="6.4.0"))
    assert (device["name"], device["capability"], device["uuid"], device["pci"]) == (
        card.name,
        None,
        None,
        None,
    )


def test_an_apple_device() -> None:
    assert [device["name"] for device in probe.read_devices(fake_torch(mps=True))] == ["Apple GPU (MPS)"]


def test_torch_says_itself_why_it_can_use_no_gpu() -> None:
    words = "The NVIDIA driver on your system is too old (found version 11040)."
    unavailable: dict[str, str] = {}
    torch = fake_torch(error=RuntimeError(words))
    assert library_tables.attempt("devices", lambda: probe.read_devices(torch), unavailable) is None
    assert unavailable == {"devices": words}


@pytest.mark.parametrize("version", ["2.3.2", "2.3.3", "2.8.3.post1"])
def test_an_old_flash_attention_2_does_not_count(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = {2: {"pkg_availability_check": lambda: True}, 4: {"pkg_availability_check": lambda: False}}
    monkeypatch.setitem(sys.modules, FLASH, SimpleNamespace(FLASH_ATTENTION_COMPATIBILITY_MATRIX=matrix))
    monkeypatch.setattr(importlib.metadata, "version", lambda name: version)
    found = library_tables.read_tables()["flash_packages"]
    assert found == {"flash_attention_2": version != "2.3.2", "flash_attention_4": False}


def test_a_table_that_is_not_there_does_not_hide_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    old = ModuleType(FLASH)
    vars(old).update(FLASH_ATTN_KERNEL_VERSIONS={"kernels-community/flash-attn2": 4})
    monkeypatch.setitem(sys.modules, FLASH, old)
    monkeypatch.setitem(sys.modules, "trl.cli.commands", None)
    tables = library_tables.read_tables()
    assert tables["attention_versions"] == {"kernels-community/flash-attn2": 4}
    assert "attention_devices" not in tables
    assert "FLASH_ATTN_KERNEL_DEVICES" in tables["unavailable"]["attention_devices"]
    assert "trainers" in tables["unavailable"]


@pytest.mark.parametrize("error", [SystemExit(3), ImportError("libcudart.so.12: not found"), KeyError("x"), OSError()])
def test_whatever_an_import_raises_is_a_reason(error: BaseException) -> None:
    def read() -> None:
        raise error

    unavailable: dict[str, str] = {}
    assert library_tables.attempt("torch", read, unavailable) is None
    assert unavailable["torch"].startswith(type(error).__name__)


@pytest.mark.parametrize("problem", ["raises", "no version"])
def test_damaged_metadata_is_told(problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str | None:
        if name != "trl":
            raise importlib.metadata.PackageNotFoundError(name)
        if problem == "raises":
            raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")
        return None

    monkeypatch.setattr(importlib.metadata, "version", version)
    packages = probe.read_packages()
    assert list(packages) == ["trl"]
    assert packages["trl"]["version"] == ""
    assert "metadata" in packages["trl"]["error"]


def test_the_probe_s_files_are_python_3_10() -> None:
    folder = Path(probe.__file__).parent
    for name in ("probe", "library_tables", "protocol", "run"):
        ast.parse((folder / f"{name}.py").read_text(), feature_version=(3, 10))
