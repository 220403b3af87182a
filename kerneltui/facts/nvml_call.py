"""Calls of NVML, each of which may fail alone: a value, or the reason in NVML's own words.

Source of the error codes: the NVML API reference, https://docs.nvidia.com/deploy/nvml-api/ (nvmlReturn_t).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from kerneltui.text import plain_line

T = TypeVar("T")

_UNINITIALIZED, _DRIVER_NOT_LOADED, _GPU_IS_LOST, _MISMATCH, _GPU_NOT_FOUND, _UNKNOWN = 1, 9, 15, 18, 28, 999
_GONE = {_UNINITIALIZED, _DRIVER_NOT_LOADED, _GPU_IS_LOST, _MISMATCH, _GPU_NOT_FOUND}

# What a person can do when NVML does not start. The cases are those of public reports:
# nvidia-container-toolkit#1227 (unknown error after a reload of systemd), open-gpu-kernel-modules#47
# (mismatch), WSL#12859 (blocked).
_NEXT_STEPS = {
    4: "this user may not open /dev/nvidia*: ask who runs the server",
    _DRIVER_NOT_LOADED: "load the kernel module (modprobe nvidia), or reboot",
    12: "no NVIDIA driver is installed, or this container was started without its GPUs (--gpus all)",
    17: "the operating system keeps the GPU to itself; under WSL update Windows' driver and restart WSL",
    _MISMATCH: "the driver was updated while it ran: reboot, or reload the nvidia kernel modules",
    _UNKNOWN: "in a container this mostly means that it has lost its GPUs: restart the container",
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
    """Return the reason why NVML does not start and, where it is known, what to do."""
    step = _NEXT_STEPS.get(getattr(error, "value", 0))
    return f"{words(error).rstrip('.')}: {step}" if step else words(error)


class Readings:
    """Values read one by one; one whose call fails is None, with the reason in `unavailable` by its field."""

    def __init__(self, nvml: Any, unavailable: dict[str, str] | None = None) -> None:
        self._failures = failures_of(nvml)
        self._codes: set[int] = set()
        self._answered = False
        self.unavailable = dict(unavailable or {})

    def get(self, field: str, *ways: Callable[[], T]) -> T | None:
        """Return the value of the first of `ways` that does not fail, else None with the last one's reason.

        Without a name for `field` no reason is kept.
        """
        for way in ways:
            try:
                value = way()
            except self._failures as error:
                self._codes.add(getattr(error, "value", 0))
                self.unavailable[field] = words(error)
            else:
                self._answered = True
                self.unavailable.pop(field, None)
                return value
        self.unavailable.pop("", None)
        return None

    @property
    def lost(self) -> bool:
        """Whether the failures say that NVML or the GPU is gone, not just that a value is not supported."""
        return bool(self._codes & _GONE) or (_UNKNOWN in self._codes and not self._answered)
