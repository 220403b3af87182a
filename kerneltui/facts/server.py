"""The server report: GPUs and driver (NVML), torch, packages, and answers of the libraries there."""

from __future__ import annotations

from typing import Literal

from kerneltui.installer import Installer
from kerneltui.records import Document, Record

# NVIDIA Ampere: the first compute capability with bfloat16 arithmetic and with FlashAttention 2.
AMPERE = (8, 0)

PENDING = "still being read"
"""The reason in `Server.unavailable` for what comes later, in reports that are still being made."""


class GpuProcess(Record):
    """A process that holds memory on a GPU; `user`, `command`, `memory` (bytes) are None where not seen."""

    pid: int
    user: str | None = None
    command: str | None = None
    memory: int | None = None


class MigInstance(Record):
    """A part of a GPU that CUDA sees as a device of its own: a compute instance of a GPU instance.

    `uuid` begins with "MIG-" and is what CUDA_VISIBLE_DEVICES takes; `name` is NVML's, with the profile
    ("… MIG 1g.10gb"). Memory in bytes. What could not be read is None, with its reason in `unavailable`.
    """

    uuid: str | None = None
    name: str | None = None
    gpu_instance: int | None = None
    compute_instance: int | None = None
    memory_total: int | None = None
    memory_used: int | None = None
    unavailable: dict[str, str] = {}


class Gpu(Record):
    """One GPU. A value that could not be read is None; `unavailable` has the reason under the field's name.

    `index` is the position in CUDA's order under CUDA_DEVICE_ORDER=PCI_BUS_ID, `nvml_index` NVML's,
    `torch_index` the number that torch gives it in this environment (None: torch does not see it). Memory in
    bytes, `memory_used` without `memory_reserved` where that is told, `utilization` in percent, `power` and
    `power_limit` in watts, `temperature` in degrees Celsius and `temperature_limit` where the clocks are
    lowered; `clock` and `memory_clock` in MHz, each with its highest. `ecc` is whether ECC is on, `ecc_errors`
    the uncorrected ones since the driver was loaded; `remap_pending` tells that rows of memory wait for a reset
    to be replaced, `remap_failed` that they could not be. `throttle` says why the clocks are lowered, empty
    when they are not. `compute_mode` is "default", "exclusive process" or "prohibited"; `nvlinks` the number of
    active NVLink connections. `mig_instances` is empty where MIG is off.
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
    temperature_limit: int | None = None
    clock: int | None = None
    clock_limit: int | None = None
    memory_clock: int | None = None
    memory_clock_limit: int | None = None
    mig: bool | None = None
    mig_instances: tuple[MigInstance, ...] | None = None
    ecc: bool | None = None
    ecc_errors: int | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    persistence: bool | None = None
    compute_mode: str | None = None
    nvlinks: int | None = None
    throttle: tuple[str, ...] | None = None
    processes: tuple[GpuProcess, ...] | None = None
    unavailable: dict[str, str] = {}


class Torch(Record):
    """The training interpreter's torch.

    `cuda`, `hip` and `xpu` are the versions that it was built for, None without; `cudnn` the one it loads. `bf16`
    tells whether the first CUDA device computes in bfloat16 by itself. A value that torch did not tell has its
    reason in `unavailable`; under "devices" are torch's own words why it can use no GPU.
    """

    version: str
    cuda: str | None = None
    hip: str | None = None
    xpu: str | None = None
    cudnn: str | None = None
    cxx11_abi: bool | None = None
    arch_list: tuple[str, ...] = ()
    device_count: int = 0
    bf16: bool | None = None
    unavailable: dict[str, str] = {}


class Package(Record):
    """An installed distribution: its version, and the error if its module does not import, where tried.

    `requires` has the versions (PEP 440 specifiers) that its metadata ask of other packages of the report,
    by their name; what only an extra asks for is left out.
    """

    version: str
    error: str | None = None
    requires: dict[str, str] = {}


class Libraries(Record):
    """Answers of the installed libraries, so that a plan can be checked elsewhere.

    `kernels_minimum` and `kernels_maximum` (excluded) are the range that transformers accepts;
    `attention_versions` maps a repository to the branch number that transformers takes when no revision is
    given (others: 1); `attention_fallbacks` maps a native name to the repository that stands in for it;
    `flash_packages` tells for each native flash name whether its own package is installed and in the range
    that transformers accepts; `attention_names` are the literal names it knows; `trainers` those of the `trl`
    command, `experimental` those of `trl.experimental`.
    """

    kernels_minimum: str | None = None
    kernels_maximum: str | None = None
    attention_versions: dict[str, int] = {}
    attention_fallbacks: dict[str, str] = {}
    attention_devices: dict[str, tuple[str, ...]] = {}
    flash_packages: dict[str, bool] = {}
    attention_names: tuple[str, ...] = ()
    trainers: tuple[str, ...] = ()
    experimental: tuple[str, ...] = ()
    tvm_ffi: str | None = None
    unavailable: dict[str, str] = {}


class Toolchain(Record):
    """What Triton needs to compile kernels while training runs: paths of a C compiler and of Python's headers."""

    compiler: str | None = None
    headers: str | None = None
    unavailable: dict[str, str] = {}


class Disk(Record):
    """Space where something is kept, in bytes. `free` is what this user may still write there, so far as told.

    `purpose` is "runs", "cache" (the Hub's) or "shared memory" (/dev/shm); `quota` says that `free` is what a
    quota leaves, not the disk.
    """

    purpose: Literal["runs", "cache", "shared memory"]
    path: str
    free: int
    total: int
    quota: bool = False


class HubAnswer(Record):
    """What the Hub said when it was asked: `seconds` to its first answer, None with the reason in `unavailable`.

    `proxy` is the proxy in between, `kernels` whether the endpoint knows kernel repositories (a mirror may not).
    `token` says where huggingface_hub finds a token ("other": of a CI login or a notebook), `user` whom the Hub
    takes it for; its value is kept nowhere. `cached` is how many snapshots its cache on this machine holds.
    """

    endpoint: str
    seconds: float | None = None
    proxy: str | None = None
    kernels: bool | None = None
    token: Literal["environment", "file", "other"] | None = None
    user: str | None = None
    cached: int | None = None
    unavailable: dict[str, str] = {}


class Stay(Record):
    """Whether processes of this session outlive its end.

    `kill_user_processes` tells whether systemd ends this user's processes at the logout, `linger` whether the
    user's services stay even then; `container` is the kind of container ("docker", "podman", "kubernetes", …),
    `slurm_job` the number of the Slurm job. None where it does not apply or, with a reason in `unavailable`,
    could not be told.
    """

    kill_user_processes: bool | None = None
    linger: bool | None = None
    container: str | None = None
    slurm_job: str | None = None
    unavailable: dict[str, str] = {}


class Server(Document):
    """All that decides whether training works on a machine, at one moment.

    `system`, `machine` and `release` are those of Python's `platform` (a release with "microsoft" is WSL).
    `memory_total` and `memory_available` in bytes, `memory_limit` what the control group allows; `cores` those
    that this process may use, `cpu_quota` how many cores' time the control group allows. `driver_cuda` is the
    newest CUDA that the driver runs. `installer` is what made the training interpreter's environment. The
    reasons in `unavailable` stand under the names of fields, and of disks under "disks.<purpose>".
    """

    time: str
    hostname: str
    system: str
    machine: str
    interpreter: str
    python: str | None = None
    release: str | None = None
    installer: Installer | None = None
    cores: int | None = None
    cpu_quota: float | None = None
    memory_total: int | None = None
    memory_available: int | None = None
    memory_limit: int | None = None
    driver: str | None = None
    driver_cuda: str | None = None
    gpus: tuple[Gpu, ...] = ()
    torch: Torch | None = None
    packages: dict[str, Package] = {}
    libraries: Libraries | None = None
    toolchain: Toolchain | None = None
    environment: dict[str, str] = {}
    disks: tuple[Disk, ...] = ()
    hub: HubAnswer | None = None
    stay: Stay | None = None
    unavailable: dict[str, str] = {}
