"""A stand-in for the module pynvml: the machine that a test describes, and any call made to fail.

Constants and exceptions are those of the real module. Values of the H200 were read on one with driver
580.159.03 (shared facts, trl.md section 10); those of the GB10 are public reports (nvitop#208), the rest is
made up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pynvml

# Fields of a GPU's record that the reader does not fill yet.
UNREAD = {"temperature_limit", "clock", "clock_limit", "memory_clock", "memory_clock_limit", "mig_instances", "ecc"}
UNREAD |= {"remap_pending", "remap_failed", "persistence", "compute_mode", "nvlinks"}
GIB = 1 << 30
MIB = 1 << 20


@dataclass
class FakeGpu:
    """One card; `unsupported` are the calls that answer "Not Supported"."""

    name: str = "NVIDIA H200"
    uuid: str = "GPU-11111111-2222-3333-4444-555555555555"
    pci: str = "00000000:3B:00.0"
    capability: tuple[int, int] = (9, 0)
    total: int = 143771 * MIB
    reserved: int = 615 * MIB
    used: int = 0
    throttle: int = 0
    processes: list[tuple[int, int | None]] = field(default_factory=list)
    unsupported: frozenset[str] = frozenset()


def h200(**values: Any) -> FakeGpu:
    return FakeGpu(**values)


def gb10() -> FakeGpu:
    """The GPU of a DGX Spark, which shares the host's memory: both memory calls are not supported."""
    return FakeGpu(
        name="NVIDIA GB10",
        capability=(12, 1),
        pci="0000000F:01:00.0",
        unsupported=frozenset(
            {"nvmlDeviceGetMemoryInfo", "nvmlDeviceGetTotalEccErrors", "nvmlDeviceGetEnforcedPowerLimit"}
        ),
    )


class FakeNvml:
    """The module. `fail` maps a call, or a call and NVML's index such as `name:1`, to an error code."""

    def __init__(self, *gpus: FakeGpu, driver: str = "580.159.03") -> None:
        self.gpus = list(gpus)
        self.driver = driver
        self.fail: dict[str, int] = {}
        self.raises: dict[str, Exception] = {}
        self.calls: list[str] = []
        self.started = 0

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("NVML", "nvmlClocks", "nvmlMemory")):
            return getattr(pynvml, name)
        answer = _ANSWERS.get(name)
        if answer is None:
            raise AttributeError(f"module 'pynvml' has no attribute {name!r}")

        def call(*arguments: Any, **options: Any) -> Any:
            self._check(name, arguments)
            return answer(self, *arguments, **options)

        return call

    def _check(self, name: str, arguments: tuple[Any, ...]) -> None:
        self.calls.append(name)
        if name in self.raises:
            raise self.raises[name]
        one = f"{name}:{self._number(arguments[0])}" if arguments else name
        code = self.fail.get(name) or self.fail.get(one)
        if code:
            raise pynvml.NVMLError(code)
        if not self.started and name != "nvmlInit":
            raise pynvml.NVMLError(pynvml.NVML_ERROR_UNINITIALIZED)
        if arguments and isinstance(arguments[0], FakeGpu) and name in arguments[0].unsupported:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    def _number(self, argument: Any) -> Any:
        return self.gpus.index(argument) if argument in self.gpus else argument

    def start(self) -> None:
        self.started += 1

    def stop(self) -> None:
        self.started -= 1


def _memory(_: FakeNvml, gpu: FakeGpu, version: int | None = None) -> SimpleNamespace:
    """The first version of the call counts what is reserved as used."""
    free = gpu.total - gpu.used - gpu.reserved
    if version is None:
        return SimpleNamespace(total=gpu.total, used=gpu.used + gpu.reserved, free=free)
    return SimpleNamespace(total=gpu.total, used=gpu.used, free=free, reserved=gpu.reserved)


def _not_found(*_: Any) -> Any:
    raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)


_ANSWERS: dict[str, Callable[..., Any]] = {
    "nvmlInit": FakeNvml.start,
    "nvmlShutdown": FakeNvml.stop,
    "nvmlSystemGetDriverVersion": lambda self: self.driver,
    "nvmlSystemGetCudaDriverVersion": lambda self: 13000,
    "nvmlDeviceGetCount": lambda self: len(self.gpus),
    "nvmlDeviceGetHandleByIndex": lambda self, number: self.gpus[number],
    "nvmlDeviceGetName": lambda self, gpu: gpu.name,
    "nvmlDeviceGetUUID": lambda self, gpu: gpu.uuid,
    "nvmlDeviceGetPciInfo": lambda self, gpu: SimpleNamespace(busId=gpu.pci),
    "nvmlDeviceGetCudaComputeCapability": lambda self, gpu: gpu.capability,
    "nvmlDeviceGetEnforcedPowerLimit": lambda self, gpu: 700_000,
    "nvmlDeviceGetMigMode": lambda self, gpu: [0, 0],
    "nvmlDeviceGetTotalEccErrors": lambda self, gpu, kind, counter: 0,
    "nvmlDeviceGetMemoryInfo": _memory,
    "nvmlDeviceGetUtilizationRates": lambda self, gpu: SimpleNamespace(gpu=7, memory=1),
    "nvmlDeviceGetPowerUsage": lambda self, gpu: 76_543,
    "nvmlDeviceGetTemperature": lambda self, gpu, sensor: 31,
    "nvmlDeviceGetCurrentClocksEventReasons": lambda self, gpu: gpu.throttle,
    "nvmlDeviceGetCurrentClocksThrottleReasons": lambda self, gpu: gpu.throttle,
    "nvmlDeviceGetComputeRunningProcesses": lambda self, gpu: [
        SimpleNamespace(pid=pid, usedGpuMemory=memory) for pid, memory in gpu.processes
    ],
    "nvmlDeviceGetComputeRunningProcesses_v2": _not_found,
    "nvmlDeviceGetGraphicsRunningProcesses": lambda self, gpu: [],
    "nvmlDeviceGetGraphicsRunningProcesses_v2": _not_found,
    "nvmlDeviceGetMPSComputeRunningProcesses": _not_found,
    "nvmlDeviceGetMPSComputeRunningProcesses_v2": _not_found,
}
CALLS = tuple(_ANSWERS)
ERROR_CODES = tuple(sorted(pynvml.NVMLError._valClassMapping))
