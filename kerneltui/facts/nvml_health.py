"""What NVML tells of a GPU's limits, settings and health: none of it changes from one second to the next.

Source of calls, units and meanings: the NVML API reference, https://docs.nvidia.com/deploy/nvml-api/.
"""

from __future__ import annotations

from typing import Any

from kerneltui.facts.nvml_call import Readings

_ENABLED = 1  # nvmlEnableState_t

# nvmlComputeMode_t; 1 is of drivers before 2018.
_COMPUTE_MODES = {0: "default", 1: "exclusive thread", 2: "prohibited", 3: "exclusive process"}

_CORE, _MEMORY = 1, 2  # nvmlClockType_t

# What NVML says of a link beyond the GPU's last one: not supported, or an invalid argument.
_NO_SUCH_LINK = (2, 3)


def read_health(nvml: Any, handle: Any, values: Readings) -> dict[str, Any]:
    """Return the fields of `Gpu` that say how it is set and whether it is well; see there for their units."""
    calls = {
        "ecc": lambda: nvml.nvmlDeviceGetEccMode(handle)[0] == _ENABLED,
        "ecc_errors": lambda: count_errors(nvml, handle),
        "remap_failed": lambda: bool(nvml.nvmlDeviceGetRemappedRows(handle)[3]),
        "persistence": lambda: nvml.nvmlDeviceGetPersistenceMode(handle) == _ENABLED,
        "compute_mode": lambda: _compute_mode(nvml.nvmlDeviceGetComputeMode(handle)),
        "nvlinks": lambda: _count_links(nvml, handle),
    }
    fields: dict[str, Any] = {name: values.get(name, call) for name, call in calls.items()}
    fields["remap_pending"] = values.get(
        "remap_pending",
        lambda: bool(nvml.nvmlDeviceGetRemappedRows(handle)[2]),
        # Before Ampere whole pages of memory are retired instead, which waits for a reset as well.
        lambda: nvml.nvmlDeviceGetRetiredPagesPendingStatus(handle) == _ENABLED,
    )
    return fields


def count_errors(nvml: Any, handle: Any) -> int:
    """Return the memory errors that were not corrected since the driver was loaded. Raises what NVML raises."""
    kind, counter = nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
    return int(nvml.nvmlDeviceGetTotalEccErrors(handle, kind, counter))


def read_limits(nvml: Any, handle: Any, values: Readings) -> dict[str, Any]:
    """Return the limits of power, clocks and temperature under their fields in `Gpu`."""
    return {
        "power_limit": values.get("power_limit", lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000),
        "clock_limit": values.get("clock_limit", lambda: int(nvml.nvmlDeviceGetMaxClockInfo(handle, _CORE))),
        "memory_clock": values.get("memory_clock", lambda: int(nvml.nvmlDeviceGetClockInfo(handle, _MEMORY))),
        "memory_clock_limit": values.get(
            "memory_clock_limit", lambda: int(nvml.nvmlDeviceGetMaxClockInfo(handle, _MEMORY))
        ),
        "temperature_limit": values.get(
            "temperature_limit",
            lambda: _threshold(nvml, handle, nvml.NVML_TEMPERATURE_THRESHOLD_GPU_MAX),
            lambda: _threshold(nvml, handle, nvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN),
            lambda: _from_margin(nvml, handle),
        ),
    }


def _threshold(nvml: Any, handle: Any, threshold: int) -> int:
    degrees = int(nvml.nvmlDeviceGetTemperatureThreshold(handle, threshold))
    if degrees <= 0:
        raise ValueError(f"NVML says {degrees} °C")
    return degrees


def _from_margin(nvml: Any, handle: Any) -> int:
    """Return the limit as what is left to it: thresholds are withdrawn from Ada on in favour of this margin."""
    left = int(nvml.nvmlDeviceGetMarginTemperature(handle))
    return int(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)) + left


def _compute_mode(number: int) -> str:
    return _COMPUTE_MODES.get(number, f"mode {number}")


def _count_links(nvml: Any, handle: Any) -> int:
    """Return the number of active links. Raises where the GPU has none, or one does not answer."""
    active = 0
    for number in range(nvml.NVML_NVLINK_MAX_LINKS):
        try:
            active += nvml.nvmlDeviceGetNvLinkState(handle, number) == _ENABLED
        except nvml.NVMLError as error:
            if number and error.value in _NO_SUCH_LINK:
                break
            raise
    return active
