"""The server report: GPUs and driver (NVML), torch, packages, and answers of the libraries there."""

from __future__ import annotations

from typing import Literal

from kerneltui.records import Document, Record

# NVIDIA Ampere: the first compute capability with bfloat16 arithmetic and with FlashAttention 2.
AMPERE = (8, 0)


class GpuProcess(Record):
    """A process that holds memory on a GPU; `user`, `command`, `memory` (bytes) are None where not seen."""

    pid: int
    user: str | None = None
    command: str | None = None
    memory: int | None = None


class Gpu(Record):
    """One GPU. A value that could not be read is None; `unavailable` has the reason under the field's name.

    `index` is the position in CUDA's order under CUDA_DEVICE_ORDER=PCI_BUS_ID, `nvml_index` NVML's,
    `torch_index` the number that torch gives it in this environment (None: torch does not see it). Memory in
    bytes, `memory_used` without `memory_reserved` where that is told, `utilization` in percent, `power` and
    `power_limit` in watts, `temperature` in degrees Celsius, `ecc_errors` the uncorrected ones since the
    driver was loaded. `throttle` says why the clocks are lowered, empty when they are not.
    """

    index: int | None = None
    nvml_index: int | None = None
    torch_index: int | None = None
    uuid: str | None = None
    pci: str | None = None
    name: str | None = None
    capability: tuple[int, int] | None = None
    memory_total: int | None = None
    memory_used: int | None = None
    memory_reserved: int | None = None
    memory_free: int | None = None
    memory_unified: bool = False
    utilization: int | None = None
    power: float | None = None
    power_limit: float | None = None
    temperature: int | None = None
    mig: bool | None = None
    ecc_errors: int | None = None
    throttle: tuple[str, ...] | None = None
    processes: tuple[GpuProcess, ...] | None = None
    unavailable: dict[str, str] = {}


class Torch(Record):
    """The training interpreter's torch.

    `cuda`, `hip` and `xpu` are the versions that it was built for, None without. `bf16` tells whether the
    first CUDA device computes in bfloat16 by itself. A value that torch did not tell has its reason in
    `unavailable`; under "devices" are torch's own words why it can use no GPU.
    """

    version: str
    cuda: str | None = None
    hip: str | None = None
    xpu: str | None = None
    cxx11_abi: bool | None = None
    arch_list: tuple[str, ...] = ()
    device_count: int = 0
    bf16: bool | None = None
    unavailable: dict[str, str] = {}


class Package(Record):
    """An installed distribution: its version, and the error if its module does not import, where tried."""

    version: str
    error: str | None = None


class Libraries(Record):
    """Answers of the installed libraries, so that a plan can be checked elsewhere.

    `kernels_minimum` and `kernels_maximum` (excluded) are the range that transformers accepts;
    `attention_versions` maps a repository to the branch number that transformers takes when no revision is
    given (others: 1); `attention_fallbacks` maps a native name to the repository that stands in for it;
    `flash_packages` tells for each native flash name whether its own package is installed and in the range
    that transformers accepts; `attention_names` are the literal names it knows; `trainers` those of the `trl`
    command.
    """

    kernels_minimum: str | None = None
    kernels_maximum: str | None = None
    attention_versions: dict[str, int] = {}
    attention_fallbacks: dict[str, str] = {}
    attention_devices: dict[str, tuple[str, ...]] = {}
    flash_packages: dict[str, bool] = {}
    attention_names: tuple[str, ...] = ()
    trainers: tuple[str, ...] = ()
    tvm_ffi: str | None = None
    unavailable: dict[str, str] = {}


class Disk(Record):
    """Space where something is kept, in bytes. `purpose` is "runs" or "cache"."""

    purpose: Literal["runs", "cache"]
    path: str
    free: int
    total: int


class Server(Document):
    """All that decides whether training works on a machine, at one moment.

    `system` and `machine` are Python's `platform.system()` and `platform.machine()`; `memory_total` in bytes;
    `cores` those that this process may use; `driver_cuda` the newest CUDA that the driver runs. The reasons
    in `unavailable` stand under the names of fields, and of disks under "disks.<purpose>".
    """

    time: str
    hostname: str
    system: str
    machine: str
    python: str
    interpreter: str
    cores: int | None = None
    memory_total: int | None = None
    driver: str | None = None
    driver_cuda: str | None = None
    gpus: tuple[Gpu, ...] = ()
    torch: Torch | None = None
    packages: dict[str, Package] = {}
    libraries: Libraries | None = None
    environment: dict[str, str] = {}
    disks: tuple[Disk, ...] = ()
    unavailable: dict[str, str] = {}
