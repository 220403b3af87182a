"""The NVML reader: what the NVIDIA driver says of its GPUs, once in full and again and again in brief.

Source of calls and units: the NVML API reference, https://docs.nvidia.com/deploy/nvml-api/.
"""

from __future__ import annotations

import contextlib
from typing import Any, NamedTuple

from kerneltui.facts.nvml_call import Readings, failures_of, next_step
from kerneltui.facts.nvml_devices import Device, list_devices, lost, text, with_lost
from kerneltui.facts.nvml_health import count_errors, read_health, read_limits
from kerneltui.facts.nvml_mig import list_instances, read_instance
from kerneltui.facts.nvml_values import read_memory, read_processes, read_throttle
from kerneltui.facts.server import Gpu
from kerneltui.records import Record

# After a try to come back that did not help, so many samples pass before the next: starting NVML is slow, and
# without a loaded driver it may start nvidia-modprobe. At one sample every 2 s that is half a minute.
SAMPLES_BETWEEN_TRIES = 15


class GpuSample(Record):
    """One GPU at one moment, for the record of a run.

    What could not be read is None, with its reason in `unavailable`. `index` as in `Gpu`; `utilization` in
    percent, `memory_used` in bytes (without what the driver reserves, where it tells that apart; of a GPU that
    shares the host's memory, what is used of that), `power` in watts, `temperature` in degrees Celsius, `clock`
    in MHz; `ecc_errors` as in `Gpu`. When the GPU or NVML is lost, everything but `index` and `uuid` is None
    and `unavailable["gpu"]` says why.
    """

    index: int | None = None
    uuid: str | None = None
    utilization: int | None = None
    memory_used: int | None = None
    power: float | None = None
    temperature: int | None = None
    clock: int | None = None
    throttle: tuple[str, ...] | None = None
    ecc_errors: int | None = None
    unavailable: dict[str, str] = {}


class NvmlReport(NamedTuple):
    """All that NVML told: the GPUs in PCI order, the driver's version, and the CUDA that the driver runs.

    `unavailable` has the keys "gpus", "driver" and "driver_cuda"; reasons about one GPU are in its record.
    """

    gpus: tuple[Gpu, ...]
    driver: str | None
    driver_cuda: str | None
    unavailable: dict[str, str]


class Nvml:
    """A connection with NVML that does not raise: what a call does not give is None, in NVML's words why.

    Opened at the first question, and again when the library or a GPU was lost. Not for several threads at
    once; a hanging driver makes a call hang. `reason` says why there are no GPUs, None while there are.
    `library` stands in for pynvml in tests.
    """

    def __init__(self, library: Any = None) -> None:
        self._given = library
        self._nvml: Any = None
        self._devices: tuple[Device, ...] = ()
        self._lost = False
        self._wait = 0
        self.reason: str | None = None

    def __enter__(self) -> Nvml:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection; the next question opens it again."""
        if self._nvml is not None:
            with contextlib.suppress(*failures_of(self._nvml)):
                self._nvml.nvmlShutdown()
            self._nvml = None

    def read_gpus(self) -> NvmlReport:
        """Return everything about every GPU, in PCI bus order."""
        if self._nvml is None or self._lost:
            self._connect()
        reason = {"gpus": self.reason} if self.reason else {}
        if self._nvml is None:
            return NvmlReport((), None, None, {**reason, **dict.fromkeys(("driver", "driver_cuda"), self.reason or "")})
        nvml, values = self._nvml, Readings(self._nvml, reason)
        driver = values.get("driver", lambda: text(nvml.nvmlSystemGetDriverVersion()))
        cuda = values.get("driver_cuda", lambda: _cuda_version(nvml.nvmlSystemGetCudaDriverVersion()))
        return NvmlReport(tuple(self._read(device) for device in self._devices), driver, cuda, values.unavailable)

    def sample(self) -> tuple[GpuSample, ...]:
        """Return one record a GPU, also for one that was there and is lost; cheap enough for every second.

        After a loss NVML is started again at the next sample, and then every `SAMPLES_BETWEEN_TRIES` until
        all GPUs answer.
        """
        if self._nvml is None or self._lost:
            self._recover()
        self._lost = False
        samples = tuple(self._sample(device) for device in self._devices)
        if self._devices and not self._lost:
            self._wait = 0
        return samples

    def _recover(self) -> None:
        if self._wait:
            self._wait -= 1
            return
        self._wait = SAMPLES_BETWEEN_TRIES
        self._connect()

    def _connect(self) -> None:
        """Start NVML (anew) and list its GPUs; where that fails, `reason` says why and the known GPUs count
        as lost.
        """
        self.close()
        self._lost = False
        try:
            nvml = self._given or _load()
        except ImportError as error:
            self._fail(f"nvidia-ml-py does not import ({error})")
            return
        try:
            nvml.nvmlInit()
            self._nvml = nvml
            count = int(nvml.nvmlDeviceGetCount())
        except failures_of(nvml) as error:
            self.close()
            self._fail(next_step(error))
            return
        self.reason = None if count else "the driver lists no GPU"
        self._devices = with_lost(self._devices, list_devices(nvml, count))

    def _fail(self, reason: str) -> None:
        self.reason = reason
        self._devices = tuple(lost(device, reason) for device in self._devices)

    def _read(self, device: Device) -> Gpu:
        if device.handle is None:
            return Gpu(**_identity(device), unavailable=device.unavailable)
        nvml, handle = self._nvml, device.handle
        values = Readings(nvml, device.unavailable)
        calls = {
            "name": lambda: text(nvml.nvmlDeviceGetName(handle)),
            "capability": lambda: tuple(nvml.nvmlDeviceGetCudaComputeCapability(handle)),
            "mig": lambda: nvml.nvmlDeviceGetMigMode(handle)[0] == nvml.NVML_DEVICE_MIG_ENABLE,
        }
        fields: dict[str, Any] = {name: values.get(name, call) for name, call in calls.items()}
        instances = list_instances(nvml, handle, values)
        fields["mig_instances"] = None if instances is None else tuple(read_instance(nvml, one) for one in instances)
        fields |= _read_memory(nvml, handle, values)
        fields |= _read_changing(nvml, handle, values)
        fields |= read_limits(nvml, handle, values)
        fields |= read_health(nvml, handle, values)
        fields["processes"] = read_processes(nvml, handle, values, instances or ())
        return Gpu(**_identity(device), **fields, unavailable=values.unavailable)

    def _sample(self, device: Device) -> GpuSample:
        fields: dict[str, Any] = {"index": device.index, "uuid": device.uuid}
        if device.handle is None:
            self._lost = True
            return GpuSample(**fields, unavailable=device.unavailable)
        values = Readings(self._nvml, device.unavailable)
        fields |= _read_changing(self._nvml, device.handle, values)
        memory = _read_memory(self._nvml, device.handle, values)
        fields["ecc_errors"] = values.get("ecc_errors", lambda: count_errors(self._nvml, device.handle))
        fields["memory_used"] = _host_memory_used() if memory["memory_unified"] else memory["memory_used"]
        self._lost = self._lost or values.lost
        reasons = {name: reason for name, reason in values.unavailable.items() if fields.get(name, 0) is None}
        return GpuSample(**fields, unavailable=reasons)


def _load() -> Any:
    import pynvml

    return pynvml


def _identity(device: Device) -> dict[str, Any]:
    return {"index": device.index, "nvml_index": device.nvml_index, "uuid": device.uuid, "pci": device.pci}


def _read_memory(nvml: Any, handle: Any, values: Readings) -> dict[str, Any]:
    """Return the memory, and whether it is the host's: of a GPU without its own NVML supports neither call."""
    memory = Readings(nvml)
    fields: dict[str, Any] = {**read_memory(nvml, handle, memory)}
    values.add(memory)
    return {**fields, "memory_unified": fields["memory_total"] is None and memory.only_not_supported}


def _host_memory_used() -> int:
    import psutil

    memory = psutil.virtual_memory()
    return int(memory.total - memory.available)


def _read_changing(nvml: Any, handle: Any, values: Readings) -> dict[str, Any]:
    """Return what changes from one second to the next, but memory."""
    return {
        "utilization": values.get("utilization", lambda: int(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)),
        "power": values.get("power", lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000),
        "temperature": values.get(
            "temperature", lambda: int(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU))
        ),
        "clock": values.get("clock", lambda: int(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM))),
        "throttle": read_throttle(nvml, handle, values),
    }


def _cuda_version(number: int) -> str:
    """Return NVML's 13000 as "13.0"."""
    return f"{number // 1000}.{number % 1000 // 10}"
