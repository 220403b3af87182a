"""NVML's GPUs and torch's devices brought together: one record for each card."""

from __future__ import annotations

import msgspec

from kerneltui.facts.nvml_devices import pci_key
from kerneltui.facts.server import Gpu

# What torch knows too, for where NVML does not tell.
_FROM_TORCH = ("name", "capability", "memory_total", "uuid", "pci")

# Of a divided card torch knows a part: its name, memory and UUID are not those of the card.
_OF_A_PART = ("capability", "pci")


def join_devices(
    gpus: tuple[Gpu, ...], devices: tuple[Gpu, ...], *, no_nvml: str, no_torch: str, limited: bool = False
) -> tuple[Gpu, ...]:
    """Return NVML's `gpus`, each with what torch's `devices` add, then those devices that only torch sees.

    The same card is known by its UUID, else its PCI id (torch has the UUID of a part where the card is divided), else,
    from a torch that tells neither, its position. `no_nvml` and `no_torch` are the reasons for what one of them does
    not tell; `limited` says that a variable such as CUDA_VISIBLE_DEVICES hides GPUs from torch, so that its
    numbers are not those of the machine.
    """
    left = list(devices)
    joined = []
    for gpu in gpus:
        by_position = len(gpus) == len(devices) and not limited
        # Of a divided card torch may see several parts.
        matches = [device for device in left if _same(gpu, device, by_position)]
        left = [device for device in left if device not in matches]
        joined.append(_add(gpu, matches[0]) if matches else _without(gpu, ("torch_index",), no_torch))
    return tuple(joined) + tuple(_torch_only(device, no_nvml, limited) for device in left)


def share_memory(gpus: tuple[Gpu, ...], total: int | None, available: int | None) -> tuple[Gpu, ...]:
    """Return the GPUs, those without memory of their own with the system's: `total` and `available` bytes.

    What NVML or torch told stays. What others hold of the system's memory is missing on the GPU, so that it counts
    as used: https://github.com/XuehaiPan/nvitop/issues/208
    """
    return tuple(_with_memory(gpu, total, available) if gpu.memory_unified else gpu for gpu in gpus)


def _with_memory(gpu: Gpu, total: int | None, available: int | None) -> Gpu:
    size = gpu.memory_total or total
    free = available if size is None or available is None else min(available, size)
    used = None if size is None or free is None else size - free
    read = {"memory_total": size, "memory_free": free, "memory_used": used}
    known = {name: value for name, value in read.items() if value is not None and getattr(gpu, name) is None}
    reasons = {name: reason for name, reason in gpu.unavailable.items() if name not in known}
    return msgspec.structs.replace(gpu, unavailable=reasons, **known)


def _same(gpu: Gpu, device: Gpu, by_position: bool) -> bool:
    if gpu.uuid and device.uuid and _uuid(gpu.uuid) == _uuid(device.uuid):
        return True
    if gpu.pci and device.pci:
        return pci_key(gpu.pci) == pci_key(device.pci)
    return by_position and not device.uuid and gpu.index is not None and gpu.index == device.torch_index


def _uuid(text: str) -> str:
    """Return a UUID as torch writes it; NVML's has "GPU-" before it."""
    return text.lower().removeprefix("gpu-")


def _add(gpu: Gpu, device: Gpu) -> Gpu:
    """Return NVML's record of a card with torch's number for it, and torch's value where NVML has none."""
    fields = _OF_A_PART if gpu.mig else _FROM_TORCH
    known = {name: getattr(device, name) for name in fields if getattr(gpu, name) is None}
    known = {name: value for name, value in known.items() if value is not None}
    reasons = {name: reason for name, reason in gpu.unavailable.items() if name not in known}
    unified = gpu.memory_unified or device.memory_unified
    return msgspec.structs.replace(
        gpu, torch_index=device.torch_index, memory_unified=unified, unavailable=reasons, **known
    )


def _torch_only(device: Gpu, reason: str, limited: bool) -> Gpu:
    """Return the record of a device that NVML does not list (an AMD, Intel or Apple GPU, or NVML is not
    there).
    """
    if not limited:
        device = msgspec.structs.replace(device, index=device.torch_index)
    fields = tuple(field for field in device.__struct_fields__ if getattr(device, field) is None)
    return _without(device, fields, reason)


def _without(gpu: Gpu, fields: tuple[str, ...], reason: str) -> Gpu:
    reasons = dict.fromkeys(fields, reason)
    return msgspec.structs.replace(gpu, unavailable={**reasons, **gpu.unavailable})
