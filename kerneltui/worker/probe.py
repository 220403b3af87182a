"""The probe: what the training interpreter has and what its torch sees.

A fresh process; it takes no memory on a GPU. It hands over "python", "packages", "torch" and "libraries",
each as soon as it is known, so that a crash in one import does not take away what came before.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import os
import platform
import sys
import warnings
from typing import Any

from .library_tables import attempt, read_tables, reason
from .protocol import part, progress, serve

PACKAGES = (
    *("torch", "transformers", "trl", "kernels", "liger-kernel", "accelerate", "datasets", "peft"),
    *("huggingface_hub", "tokenizers", "flash-attn", "flash-attn-3", "flash-attn-4", "vllm", "triton"),
    *("bitsandbytes", "deepspeed", "einops", "helion", "apache-tvm-ffi", "nvidia-cutlass-dsl", "nki"),
)

# Those whose import is tried; the asking above has imported them, as far as they do.
IMPORTED = ("torch", "transformers", "trl", "kernels", "accelerate")


def main() -> None:
    """Serve the question "probe"."""
    # Before torch is imported: the numbers of its devices must be those that nvidia-smi shows.
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    serve({"probe": probe})


def probe() -> dict[str, str]:
    """Hand over all parts and return the reasons why some are missing."""
    part("python", {"version": platform.python_version(), "executable": sys.executable})
    packages = read_packages()
    part("packages", packages)
    unavailable: dict[str, str] = {}
    progress("importing torch")
    part("torch", attempt("torch", read_torch, unavailable))
    progress("asking transformers and trl")
    part("libraries", read_tables())
    broken = {name: error for name, error in _import_errors().items() if name in packages}
    if broken:
        part("packages", {**packages, **{name: {**packages[name], "error": broken[name]} for name in broken}})
    return unavailable


def read_packages() -> dict[str, dict[str, Any]]:
    """Return version and error of each installed distribution of `PACKAGES`; none of them is imported."""
    found: dict[str, dict[str, Any]] = {}
    for name in PACKAGES:
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        # Metadata that an interrupted installation left half-written, in whatever way.
        except Exception as error:  # noqa: BLE001
            found[name] = {"version": "", "error": f"its metadata cannot be read: {reason(error)}"}
            continue
        # Metadata without a version gives None, whatever the annotation says.
        found[name] = {
            "version": version or "",
            "error": None if version else "its metadata names no version",
        }
    return found


def _import_errors() -> dict[str, str]:
    """Return the reason for each of `IMPORTED` that does not import."""
    errors: dict[str, str] = {}
    for name in IMPORTED:
        attempt(name, functools.partial(_import_version, name), errors)
    return errors


def _import_version(name: str) -> str:
    return str(importlib.import_module(name).__version__)


def read_torch() -> dict[str, Any]:
    """Return the fields of `facts.server.Torch` and "devices". Raises whatever a broken torch raises."""
    import torch

    unavailable: dict[str, str] = {}
    answer: dict[str, Any] = {
        "version": str(_needed(torch, "__version__")),
        **{name: getattr(_needed(torch, "version"), name, None) for name in ("cuda", "hip", "xpu")},
        "cxx11_abi": attempt("cxx11_abi", lambda: bool(torch.compiled_with_cxx11_abi()), unavailable),
    }
    devices = attempt("devices", lambda: read_devices(torch), unavailable)
    answer["devices"] = devices or []
    answer["device_count"] = len(devices or [])
    if torch.cuda.is_available():
        answer["arch_list"] = attempt("arch_list", torch.cuda.get_arch_list, unavailable) or []
        answer["bf16"] = attempt("bf16", lambda: _bf16(torch), unavailable)
    else:
        told = unavailable.get("devices", "told by torch for CUDA devices only")
        unavailable.update({"arch_list": told, "bf16": told})
    return {**answer, "unavailable": unavailable}


def _needed(torch: Any, name: str) -> Any:
    """Return an attribute without which `torch` is not PyTorch, as after an interrupted installation."""
    try:
        return getattr(torch, name)
    except AttributeError:
        where = getattr(torch, "__file__", None) or ", ".join(getattr(torch, "__path__", []))
        raise RuntimeError(f"{where} is not a whole PyTorch: it has no {name}; install torch again") from None


def _bf16(torch: Any) -> bool:
    """Return whether the first device computes in bfloat16 by itself; emulation does not count."""
    return bool(torch.cuda.is_bf16_supported(including_emulation=False))


def read_devices(torch: Any) -> list[dict[str, Any]]:
    """Return torch's devices in its own order. Raises with torch's own words where it can use none."""
    if torch.backends.mps.is_available():
        return [{"torch_index": 0, "name": "Apple GPU (MPS)"}]
    xpu = getattr(torch, "xpu", None)
    if xpu is not None and xpu.is_available():
        return [_device(xpu, number) for number in range(xpu.device_count())]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what torch warns of here is what it raises next
        torch.cuda.init()
    amd = torch.version.hip is not None
    return [_device(torch.cuda, number, amd=amd) for number in range(torch.cuda.device_count())]


def _device(backend: Any, number: int, *, amd: bool = False) -> dict[str, Any]:
    """Return what names device `number`; asking for properties makes no context, so it takes no memory."""
    properties = backend.get_device_properties(number)
    read = functools.partial(getattr, properties)
    address = [read(name, None) for name in ("pci_domain_id", "pci_bus_id", "pci_device_id")]
    uuid = read("uuid", None)
    # torch gives AMD's architecture (gfx942) as 9.4, which is no CUDA capability.
    numbers = None if amd else [read("major", None), read("minor", None)]
    return {
        "torch_index": number,
        "name": str(read("name", "")),
        "uuid": None if uuid is None else str(uuid),
        "pci": None if None in address else "{:08X}:{:02X}:{:02X}.0".format(*address),
        "capability": None if numbers is None or None in numbers else numbers,
        "memory_total": read("total_memory", None),
    }
