"""The one adapter over what torch tells of its build and of its devices.

Asking makes no context on a GPU, so it takes no memory there. Held against the installed torch by
tests/facts/test_torch_adapter.py.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any

from .library_tables import attempt


def read_torch() -> dict[str, Any]:
    """Return the fields of `facts.server.Torch` and "devices". Raises whatever a broken torch raises."""
    import torch

    unavailable: dict[str, str] = {}
    answer: dict[str, Any] = {
        "version": str(_needed(torch, "__version__")),
        **{name: getattr(_needed(torch, "version"), name, None) for name in ("cuda", "hip", "xpu")},
        "cxx11_abi": attempt("cxx11_abi", lambda: bool(torch.compiled_with_cxx11_abi()), unavailable),
        "cudnn": attempt("cudnn", lambda: read_cudnn(torch), unavailable),
        "arch_list": attempt("arch_list", lambda: read_arch_list(torch), unavailable) or [],
    }
    devices = attempt("devices", lambda: read_devices(torch), unavailable)
    answer["devices"] = devices or []
    answer["device_count"] = len(devices or [])
    if torch.cuda.is_available():
        answer["bf16"] = attempt("bf16", lambda: _bf16(torch), unavailable)
    else:
        unavailable["bf16"] = unavailable.get("devices", "told by torch for CUDA devices only")
    return {**answer, "unavailable": unavailable}


def _needed(torch: Any, name: str) -> Any:
    """Return an attribute without which `torch` is not PyTorch, as after an interrupted installation."""
    try:
        return getattr(torch, name)
    except AttributeError:
        where = getattr(torch, "__file__", None) or ", ".join(getattr(torch, "__path__", []))
        raise RuntimeError(f"{where} is not a whole PyTorch: it has no {name}; install torch again") from None


def read_cudnn(torch: Any) -> str:
    """Return the version of cuDNN that torch loads. Raises with torch's own words where it refuses that one.

    torch gives one number: 90701 is 9.7.1, and before version 9, 8902 is 8.9.2.
    """
    if torch.version.cuda is None:
        raise RuntimeError("this torch is not built for CUDA")
    number = torch.backends.cudnn.version()
    if number is None:
        raise RuntimeError("this torch is built without cuDNN")
    major, rest = divmod(number, 10_000 if number >= 90_000 else 1_000)
    return f"{major}.{rest // 100}.{rest % 100}"


def read_arch_list(torch: Any) -> list[str]:
    """Return the architectures that torch has code for, also where no device is to be seen.

    Without a device `torch.cuda.get_arch_list` of torch 2.11 answers with an empty list (that of 2.13 does not);
    the flags that it reads are there all the same.
    """
    if torch.version.cuda is None and torch.version.hip is None:
        raise RuntimeError("told by a torch for CUDA or ROCm only")
    found = torch.cuda.get_arch_list() or (torch._C._cuda_getArchFlags() or "").split()
    if not found:
        raise RuntimeError("torch does not tell which architectures it was built for")
    return [str(name) for name in found]


def _bf16(torch: Any) -> bool:
    """Return whether the first device computes in bfloat16 by itself; emulation does not count."""
    return bool(torch.cuda.is_bf16_supported(including_emulation=False))


def read_devices(torch: Any) -> list[dict[str, Any]]:
    """Return torch's devices in its own order. Raises with torch's own words where it can use none."""
    if torch.backends.mps.is_available():
        return [{"torch_index": 0, "name": "Apple GPU (MPS)", "memory_unified": True}]
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
        # A part of the processor, which has no memory of its own.
        "memory_unified": bool(read("is_integrated", False)),
    }
