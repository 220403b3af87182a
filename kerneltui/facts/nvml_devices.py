"""The GPUs that NVML lists, what names them, and their order in CUDA."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from kerneltui.facts.nvml_call import Readings, next_step
from kerneltui.text import plain_line


@dataclass(frozen=True)
class Device:
    """A GPU that NVML has listed; `handle` is None when it cannot be reached, for the reason under "gpu"."""

    nvml_index: int
    handle: Any
    uuid: str | None
    pci: str | None
    unavailable: dict[str, str]
    index: int | None = None


def list_devices(nvml: Any, count: int) -> list[Device]:
    """Return `count` GPUs in the order of CUDA_DEVICE_ORDER=PCI_BUS_ID; `index` where that can be told."""
    devices = [_identify(nvml, number) for number in range(count)]
    if count > 1 and not all(device.pci for device in devices):
        reason = "CUDA's order follows the PCI ids, and not all of them are known"
        return [replace(device, unavailable={**device.unavailable, "index": reason}) for device in devices]
    ordered = sorted(devices, key=lambda device: pci_key(device.pci) if device.pci else ())
    return [replace(device, index=position) for position, device in enumerate(ordered)]


def with_lost(known: tuple[Device, ...], found: list[Device]) -> tuple[Device, ...]:
    """Return `found` and, as lost, the known devices that are not in it; a known one keeps its index.

    A GPU that fell off the bus would otherwise vanish from a run's record, and those behind it would change
    numbers. One that is listed but tells no UUID is taken for the missing one at the same place in NVML's
    list.
    """
    before = {device.uuid: device for device in known if device.uuid}
    present = {device.uuid for device in found}
    gone = {device.nvml_index: device for uuid, device in before.items() if uuid not in present}
    devices = []
    for device in found:
        same = before.get(device.uuid) if device.uuid else gone.pop(device.nvml_index, None)
        devices.append(_renamed(device, same) if same else device)
    devices += [lost(device, "the driver no longer lists it") for device in gone.values()]
    return tuple(sorted(devices, key=lambda device: (device.index is None, device.index or 0)))


def _renamed(device: Device, same: Device) -> Device:
    """Return the device under the name and index that it had before."""
    reasons = {name: reason for name, reason in device.unavailable.items() if name not in ("uuid", "pci", "index")}
    return replace(device, uuid=same.uuid, pci=same.pci, index=same.index, unavailable=reasons)


def lost(device: Device, reason: str) -> Device:
    """Return the device as one that cannot be reached."""
    return replace(device, handle=None, unavailable={"gpu": reason})


def pci_key(pci: str) -> tuple[int, ...]:
    """Return (domain, bus, device) of a PCI id such as "00000000:3B:00.0", to compare and to sort. Raises
    ValueError.
    """
    return tuple(int(part, 16) for part in pci.partition(".")[0].split(":"))


def text(value: str | bytes) -> str:
    """Return a string of NVML as plain text; older bindings give bytes."""
    return plain_line(value.decode("utf-8", "replace") if isinstance(value, bytes) else value)


def _identify(nvml: Any, number: int) -> Device:
    """Return the GPU at NVML's index `number` with what names it."""
    found = Readings(nvml, describe=next_step)
    handle = found.get("gpu", lambda: nvml.nvmlDeviceGetHandleByIndex(number))
    if handle is None:
        return Device(number, None, None, None, found.unavailable)
    values = Readings(nvml)
    uuid = values.get("uuid", lambda: text(nvml.nvmlDeviceGetUUID(handle)))
    pci = values.get("pci", lambda: _pci(nvml.nvmlDeviceGetPciInfo(handle).busId))
    return Device(number, handle, uuid, pci, values.unavailable)


def _pci(value: str | bytes) -> str:
    pci = text(value)
    pci_key(pci)  # raises where it is none
    return pci
