"""A stand-in for the module pynvml: the machine that a test describes, and any call made to fail.

Constants and exceptions are those of the real module. Values of the H200 were read on one with driver
580.159.03; those of the GB10 are public reports (nvitop#208), the rest is
made up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pynvml

GIB = 1 << 30
MIB = 1 << 20


@dataclass(eq=False)
class FakeGpu:
    """One card; `unsupported` are the calls that answer "Not Supported".

    `instances` are the parts it is split into, by their number; `links` whether each NVLink is active; `remapped` is
    NVML's (correctable, uncorrectable, pending, failed).
    """

    name: str = "NVIDIA H200"
    uuid: str = "GPU-11111111-2222-3333-4444-555555555555"
    pci: str = "00000000:3B:00.0"
    capability: tuple[int, int] = (9, 0)
    total: int = 143771 * MIB
    reserved: int = 615 * MIB
    used: int = 0
    throttle: int = 0
    processes: list[tuple[int, int | None]] = field(default_factory=list)
    instances: dict[int, FakeInstance] = field(default_factory=dict)
    mig: bool = False
    ecc: bool = True
    ecc_errors: int = 0
    remapped: tuple[int, int, int, int] = (0, 0, 0, 0)
    persistence: bool = True
    compute_mode: int = 0
    links: tuple[bool, ...] = (True,) * 18
    temperature_limit: int = 87
    unsupported: frozenset[str] = frozenset()
    denied: frozenset[str] = frozenset()


@dataclass(eq=False)
class FakeInstance(FakeGpu):
    """A part of a card: what it answers for itself."""

    name: str = "NVIDIA H100 80GB HBM3 MIG 1g.10gb"
    uuid: str = "MIG-aaaaaaaa-1111-2222-3333-444444444444"
    gpu_instance: int = 7
    compute_instance: int = 0
    total: int = 9856 * MIB
    reserved: int = 0


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


def split_h100(**values: Any) -> FakeGpu:
    """An H100 in MIG mode with two parts, whose whole only the owner of the machine may ask for memory and processes.

    That is the state in a container: nvidia-container-toolkit#842.
    """
    large = FakeInstance(
        name="NVIDIA H100 80GB HBM3 MIG 3g.40gb",
        uuid="MIG-bbbbbbbb-1111-2222-3333-444444444444",
        gpu_instance=2,
        total=40448 * MIB,
        used=3 * GIB,
        processes=[(2**22 + 1, 3 * GIB)],
    )
    return FakeGpu(
        name="NVIDIA H100 80GB HBM3",
        uuid="GPU-99999999-2222-3333-4444-555555555555",
        mig=True,
        instances={0: large, 2: FakeInstance()},
        total=81559 * MIB,
        unsupported=frozenset({"nvmlDeviceGetUtilizationRates"}),
        denied=frozenset({"nvmlDeviceGetMemoryInfo", "nvmlDeviceGetComputeRunningProcesses"}),
        **values,
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
        if arguments and isinstance(arguments[0], FakeGpu):
            if name in arguments[0].unsupported:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
            if name in arguments[0].denied:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_NO_PERMISSION)

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


def _threshold(_: FakeNvml, gpu: FakeGpu, threshold: int) -> int:
    return {pynvml.NVML_TEMPERATURE_THRESHOLD_GPU_MAX: gpu.temperature_limit}.get(threshold, gpu.temperature_limit + 2)


def _link(_: FakeNvml, gpu: FakeGpu, number: int) -> int:
    if not gpu.links:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    if number >= len(gpu.links):
        raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
    return int(gpu.links[number])


def _instance(_: FakeNvml, gpu: FakeGpu, number: int) -> FakeInstance:
    if number not in gpu.instances:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
    return gpu.instances[number]


def _clock(_: FakeNvml, gpu: FakeGpu, kind: int) -> int:
    return {pynvml.NVML_CLOCK_SM: 1980, pynvml.NVML_CLOCK_MEM: 3201}[kind]


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
    "nvmlDeviceGetMigMode": lambda self, gpu: [int(gpu.mig), int(gpu.mig)],
    "nvmlDeviceGetMaxMigDeviceCount": lambda self, gpu: 7 if gpu.mig else 0,
    "nvmlDeviceGetMigDeviceHandleByIndex": _instance,
    "nvmlDeviceGetGpuInstanceId": lambda self, instance: instance.gpu_instance,
    "nvmlDeviceGetComputeInstanceId": lambda self, instance: instance.compute_instance,
    "nvmlDeviceGetEccMode": lambda self, gpu: [int(gpu.ecc), int(gpu.ecc)],
    "nvmlDeviceGetTotalEccErrors": lambda self, gpu, kind, counter: gpu.ecc_errors,
    "nvmlDeviceGetRemappedRows": lambda self, gpu: gpu.remapped,
    "nvmlDeviceGetRetiredPagesPendingStatus": lambda self, gpu: gpu.remapped[2],
    "nvmlDeviceGetPersistenceMode": lambda self, gpu: int(gpu.persistence),
    "nvmlDeviceGetComputeMode": lambda self, gpu: gpu.compute_mode,
    "nvmlDeviceGetNvLinkState": _link,
    "nvmlDeviceGetTemperatureThreshold": _threshold,
    "nvmlDeviceGetMarginTemperature": lambda self, gpu: gpu.temperature_limit - 31,
    "nvmlDeviceGetClockInfo": _clock,
    "nvmlDeviceGetMaxClockInfo": _clock,
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
