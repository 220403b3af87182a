"""The parts that a GPU is split into (MIG), each with memory of its own.

Source of the calls: https://docs.nvidia.com/deploy/nvml-api/ (Multi Instance GPU Management).
"""

from __future__ import annotations

import functools
from typing import Any

from kerneltui.facts.nvml_call import NOT_FOUND, Readings
from kerneltui.facts.nvml_devices import text
from kerneltui.facts.nvml_values import read_memory
from kerneltui.facts.server import MigInstance

FIELD = "mig_instances"


def list_instances(nvml: Any, handle: Any, values: Readings) -> list[Any] | None:
    """Return the handles of the GPU's instances, none where MIG is off; None where they cannot be told.

    NVML counts the instances that may be; a number without one is "Not Found". One that fails otherwise leaves its
    reason, and the others stay.
    """
    count = values.get(FIELD, lambda: int(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)))
    if count is None:
        return None
    found, failed = [], {}
    for number in range(count):
        one = Readings(nvml)
        instance = one.get(FIELD, functools.partial(_slot, nvml, handle, number))
        if instance is not None:
            found.append(instance)
        elif not one.failed_with(NOT_FOUND):
            failed.update(one.unavailable)
    values.unavailable.update(failed)
    return found if found or not failed else None


def _slot(nvml: Any, handle: Any, number: int) -> Any:
    return nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, number)


def read_instance(nvml: Any, handle: Any) -> MigInstance:
    """Return what names an instance, and its memory."""
    values = Readings(nvml)
    fields: dict[str, Any] = {
        "uuid": values.get("uuid", lambda: text(nvml.nvmlDeviceGetUUID(handle))),
        "name": values.get("name", lambda: text(nvml.nvmlDeviceGetName(handle))),
        "gpu_instance": values.get("gpu_instance", lambda: int(nvml.nvmlDeviceGetGpuInstanceId(handle))),
        "compute_instance": values.get("compute_instance", lambda: int(nvml.nvmlDeviceGetComputeInstanceId(handle))),
    }
    memory = read_memory(nvml, handle, values)
    fields |= {name: memory[name] for name in ("memory_total", "memory_used")}
    reasons = {name: reason for name, reason in values.unavailable.items() if name in fields}
    return MigInstance(**fields, unavailable=reasons)
