"""Systems that the variant rules are tried on, each as a person would meet it."""

from __future__ import annotations

from typing import Any

LINUX: dict[str, Any] = {"machine": "x86_64", "os": "linux", "cxx11_abi": True, "tvm_ffi": None, "macos": None}

MAC = {**LINUX, "backend": "metal", "torch": "2.12", "machine": "aarch64", "os": "darwin", "cxx11_abi": None}

SYSTEMS: dict[str, dict[str, Any]] = {
    "CPU, torch 2.13": {**LINUX, "backend": "cpu", "torch": "2.13"},
    "CPU, torch 2.14": {**LINUX, "backend": "cpu", "torch": "2.14"},
    "CUDA 13.0, torch 2.11": {**LINUX, "backend": "cu130", "torch": "2.11"},
    "CUDA 13.2, torch 2.13": {**LINUX, "backend": "cu132", "torch": "2.13"},
    "CUDA 12.8, torch 2.10": {**LINUX, "backend": "cu128", "torch": "2.10"},
    "CUDA 12.6, torch 2.6, old C++ ABI": {**LINUX, "backend": "cu126", "torch": "2.6", "cxx11_abi": False},
    "CUDA 13.0, aarch64": {**LINUX, "backend": "cu130", "torch": "2.12", "machine": "aarch64"},
    "CUDA 13.0, tvm-ffi": {**LINUX, "backend": "cu130", "torch": "2.12", "tvm_ffi": "0.1"},
    "ROCm 7.1, torch 2.12": {**LINUX, "backend": "rocm71", "torch": "2.12"},
    "XPU 2025.3, torch 2.12": {**LINUX, "backend": "xpu20253", "torch": "2.12"},
    "Windows, CUDA 12.8": {**LINUX, "backend": "cu128", "torch": "2.10", "os": "windows", "cxx11_abi": None},
    "macOS 26": {**MAC, "macos": "26.1"},
    "macOS 15": {**MAC, "macos": "15.5"},
    "no torch": {**LINUX, "backend": "cpu", "torch": None, "cxx11_abi": None},
}

# Names that no repository of the data file has, one for each form of the grammar.
MORE_NAMES = [
    "torch213-cpu-x86_64-linux",
    "torch213-cxx98-cpu-x86_64-linux",
    "torch-stable-abi214-cu130-x86_64-linux",
    "torch-stable-abi29-cu128-x86_64-windows",
    "tvm-ffi01-cu130-x86_64-linux",
    "tvm-ffi02-cu128-x86_64-linux",
    "torch212-cxx11-rocm71-x86_64-linux",
    "torch212-cxx11-cann83-x86_64-linux",
    "torch212-metal-aarch64-darwin",
    "torch212-cxx11-cu13-x86_64-linux",
    "torch-universal",
    "torch-cpu",
    "torch-npu",
    "torch-anything-goes",
]

# Puts `system` in the place of the machine's own, where kernels looks for it.
PATCH = """
import platform, types
import torch
import kernels.variants, kernels.backends
from kernels.backends import parse_backend
from kernels.variants import parse_variant, resolve_variants

def become(system):
    backend = parse_backend(system["backend"])
    version = lambda name: str(backend.version) if backend.name == name else None
    torch.version.cuda, torch.version.hip = version("cuda"), version("rocm")
    torch.version.xpu = f"{backend.version.major}0{backend.version.minor}01" if backend.name == "xpu" else None
    torch.backends.mps.is_available = lambda: backend.name == "metal"
    torch.__version__ = f"{system['torch']}.1"
    torch.compiled_with_cxx11_abi = lambda: system["cxx11_abi"]
    kernels.variants.has_torch = kernels.backends.has_torch = system["torch"] is not None
    kernels.backends._get_cuda = lambda: None
    platform.machine = lambda: system["machine"]
    platform.system = lambda: system["os"].capitalize()
    platform.mac_ver = lambda: (system["macos"] or "", ("", "", ""), "")
    kernels.variants.has_tvm_ffi = system["tvm_ffi"] is not None
    sys.modules["tvm_ffi"] = types.SimpleNamespace(__version__=f"{system['tvm_ffi']}.3")

def decide(names):
    trace = resolve_variants([parse_variant(name) for name in names])[1]
    return [[it.variant.variant_str, getattr(it, "reason", None)] for it in trace]
"""


def grid() -> list[dict[str, Any]]:
    """Return torch 2.8 to 2.14 on every backend and processor, also those that nobody has published builds for."""
    backends = ("cu126", "cu128", "cu130", "cu132", "cpu", "rocm71", "rocm72", "xpu20253", "xpu20260", "metal")
    found = []
    for minor in range(8, 15):
        for backend in backends:
            for machine in ("x86_64", "aarch64"):
                mac = {"os": "darwin", "cxx11_abi": None, "macos": "26.1"} if backend == "metal" else {}
                found.append({**LINUX, "backend": backend, "torch": f"2.{minor}", "machine": machine, **mac})
    return found
