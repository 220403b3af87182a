"""Calls of NVML, each of which may fail alone: a value, or the reason in NVML's own words.

Source of the error codes: the NVML API reference, https://docs.nvidia.com/deploy/nvml-api/ (nvmlReturn_t).
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any, TypeVar

from kerneltui.text import plain_line

T = TypeVar("T")

_UNINITIALIZED, _NOT_SUPPORTED, _NO_PERMISSION, NOT_FOUND, _INSUFFICIENT_POWER, _DRIVER_NOT_LOADED = 1, 3, 4, 6, 8, 9
_LIBRARY_NOT_FOUND, _FUNCTION_NOT_FOUND, _GPU_IS_LOST, _BLOCKED, _MISMATCH, _OTHER_VERSION = 12, 13, 15, 17, 18, 25
_GPU_NOT_FOUND, _UNKNOWN = 28, 999
_GONE = {_UNINITIALIZED, _DRIVER_NOT_LOADED, _GPU_IS_LOST, _MISMATCH, _GPU_NOT_FOUND}

# What a person can do when NVML, or one of its GPUs, does not start. The cases are those of public reports:
# nvidia-container-toolkit#1227 (unknown error after a reload of systemd), open-gpu-kernel-modules#47
# (mismatch), WSL#12859 (blocked).
_NEXT_STEPS = {
    _NO_PERMISSION: "this user may not open /dev/nvidia*: ask who runs the server",
    _INSUFFICIENT_POWER: "a power cable of the GPU is not attached",
    _DRIVER_NOT_LOADED: "load the kernel module (modprobe nvidia), or reboot",
    _LIBRARY_NOT_FOUND: "no NVIDIA driver is installed, or this container was started without its GPUs (--gpus all)",
    _GPU_IS_LOST: "it has fallen off the bus: dmesg has the Xid; reset it (nvidia-smi --gpu-reset), or reboot",
    _BLOCKED: "the operating system keeps the GPU to itself; under WSL update Windows' driver and restart WSL",
    _MISMATCH: "the driver was updated while it ran: reboot, or reload the nvidia kernel modules",
    _UNKNOWN: "in a container this mostly means that it has lost its GPUs: restart the container",
}

# Under WSL the driver is that of Windows, and there is no kernel module to load.
# Source: https://docs.nvidia.com/cuda/wsl-user-guide/
_UNDER_WSL = {
    _DRIVER_NOT_LOADED: "under WSL the driver is that of Windows: update it there, then `wsl --shutdown`",
    _LIBRARY_NOT_FOUND: "under WSL it comes with Windows' driver, in /usr/lib/wsl/lib: update that driver, then "
    "`wsl --shutdown`; install no Linux driver",
    _UNKNOWN: "under WSL `wsl --shutdown` starts the GPU's connection anew",
}


def failures_of(nvml: Any) -> tuple[type[Exception], ...]:
    """Return what a call of the module `nvml` (pynvml) can raise.

    Besides its own errors: AttributeError and TypeError where an older binding lacks a function or an
    argument, OSError from the shared library, ValueError for text that does not decode or parse.
    """
    mismatch = getattr(nvml, "NVMLLibraryMismatchError", nvml.NVMLError)
    return (nvml.NVMLError, mismatch, AttributeError, TypeError, OSError, ValueError)


def words(error: Exception) -> str:
    """Return the reason of a failed call as NVML words it, on one line and never empty."""
    return plain_line(str(error)) or type(error).__name__


def next_step(error: Exception) -> str:
    """Return the reason why NVML or a GPU of it does not start and, where it is known, what to do."""
    wsl = _UNDER_WSL if "microsoft" in platform.release().lower() else {}
    code = getattr(error, "value", 0)
    step = wsl.get(code) or _NEXT_STEPS.get(code)
    return f"{words(error).rstrip('.')}: {step}" if step else words(error)


def is_absent(nvml: Any, error: Exception) -> bool:
    """Return whether a call failed because this driver or this binding does not have it."""
    mismatch = getattr(nvml, "NVMLLibraryMismatchError", AttributeError)
    code = getattr(error, "value", 0)
    return code in (_FUNCTION_NOT_FOUND, _OTHER_VERSION) or isinstance(error, (AttributeError, TypeError, mismatch))


class Readings:
    """Values read one by one; one whose call fails is None, with the reason in `unavailable` by its field."""

    def __init__(
        self, nvml: Any, unavailable: dict[str, str] | None = None, *, describe: Callable[[Exception], str] = words
    ) -> None:
        self._nvml = nvml
        self._describe = describe
        self._codes: set[int] = set()
        self._answered = False
        self.unavailable = dict(unavailable or {})

    def get(self, field: str, *ways: Callable[[], T]) -> T | None:
        """Return the value of the first of `ways` that does not fail, else None with a reason.

        That is the reason of the first way that this driver has. Without a name for `field` none is kept.
        """
        failed: list[Exception] = []
        for way in ways:
            try:
                value = way()
            except failures_of(self._nvml) as error:
                failed.append(error)
                if not is_absent(self._nvml, error):
                    self._codes.add(getattr(error, "value", 0))
            else:
                self._answered = True
                self.unavailable.pop(field, None)
                return value
        if field:
            telling = next((error for error in failed if not is_absent(self._nvml, error)), failed[-1])
            self.unavailable[field] = self._describe(telling)
        return None

    def add(self, other: Readings) -> None:
        """Take in the reasons of other readings of the same GPU, and what they say of a loss."""
        self.unavailable |= other.unavailable
        self._codes |= other._codes
        self._answered = self._answered or other._answered

    @property
    def only_not_supported(self) -> bool:
        """Whether the GPU does not have what was asked for, and nothing else went wrong."""
        return self._codes == {_NOT_SUPPORTED}

    def failed_with(self, code: int) -> bool:
        """Return whether a call failed with this code of NVML."""
        return code in self._codes

    @property
    def lost(self) -> bool:
        """Whether the failures say that NVML or the GPU is gone, not just that a value is not supported."""
        return bool(self._codes & _GONE) or (_UNKNOWN in self._codes and not self._answered)
