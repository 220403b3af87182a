"""NVML's GPUs and torch's devices brought together: one record for each card."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kerneltui.facts.nvml_devices import pci_key
from kerneltui.facts.server import Gpu

# What torch knows too, for where NVML does not tell.
_FROM_TORCH = ("name", "capability", "memory_total", "uuid", "pci")


def join_devices(
    gpus: tuple[Gpu, ...], devices: tuple[Gpu, ...], *, no_nvml: str, no_torch: str, limited: bool = False
) -> tuple[Gpu, ...]:
    """Return NVML's `gpus`, each with what torch's `devices` add, then those devices that only torch sees.

    The same card is known by its UUID, else its PCI id (under MIG torch has another UUID), else, from a torch
    that tells neither, its position. `no_nvml` and `no_torch` are the reasons for what one of them does not
    tell; `limited` says that a variable such as CUDA_VISIBLE_DEVICES hides GPUs from torch, so that its
    numbers are not those of the machine.
    """
    left = list(devices)
    joined = []
    for gpu in gpus:
        by_position = len(gpus) == len(devices) and not limited
        match = next((device for device in left if _same(gpu, device, by_position)), None)
        if match:
            left.remove(match)
        joined.append(_add(gpu, match) if match else _without(gpu, ("torch_index",), no_torch))
    return tuple(joined) + tuple(_torch_only(device, no_nvml, limited) for device in left)


def visible_gpus(gpus: Sequence[Gpu], devices: str) -> tuple[Gpu, ...]:
    """Return those of `gpus` that CUDA shows under CUDA_VISIBLE_DEVICES=`devices`: numbers, or beginnings of UUIDs.

    A name that is not there ends the list, and one that stands there twice empties it. Source: `_parse_visible_devices`
    in torch.cuda. A part of a card (MIG) is not told apart: all cards that may be parted count.
    """
    if "MIG-" in devices:
        return tuple(gpu for gpu in gpus if gpu.mig is not False)
    if all(gpu.index is None and gpu.uuid is None for gpu in gpus):
        return tuple(gpus)
    found: list[Gpu] = []
    for name in devices.split(","):
        named = [gpu for gpu in gpus if _is_named(gpu, name.strip())]
        if len(named) != 1:
            break
        found += named
    return tuple(found) if len({id(gpu) for gpu in found}) == len(found) else ()


def _is_named(gpu: Gpu, name: str) -> bool:
    if name.isascii() and name.isdigit():
        return gpu.index == int(name)
    return name.startswith("GPU-") and gpu.uuid is not None and _uuid(gpu.uuid).startswith(_uuid(name))


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
    known = {name: getattr(device, name) for name in _FROM_TORCH if getattr(gpu, name) is None}
    known = {name: value for name, value in known.items() if value is not None}
    reasons = {name: reason for name, reason in gpu.unavailable.items() if name not in known}
    return msgspec.structs.replace(gpu, torch_index=device.torch_index, unavailable=reasons, **known)


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
