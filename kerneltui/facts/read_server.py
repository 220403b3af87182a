"""Read a server: NVML and the host here, torch and the packages by a probe in the training interpreter."""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kerneltui.errors import WorkerDiedError, WorkerTimeoutError
from kerneltui.facts.devices import join_devices
from kerneltui.facts.gpu import Nvml, NvmlReport
from kerneltui.facts.host import count_cores, harmless, read_disks, read_environment, total_memory
from kerneltui.facts.server import Gpu, Libraries, Package, Server, Torch
from kerneltui.interpreter import ProgressCallback, Worker
from kerneltui.records import from_builtins
from kerneltui.text import now, plain_line

# A driver that hangs must not hang the report; a healthy one answers in well under a second.
_NVML_TIMEOUT = 30.0

_LIMITING = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK")


def read_server(
    python: Path,
    *,
    timeout: float = 120,
    on_progress: ProgressCallback | None = None,
    runs_dir: Path | None = None,
) -> Server:
    """Return the report of this machine with `python` as the training interpreter, in some seconds.

    `timeout` (seconds) is for the probe, which imports torch, transformers and TRL; NVML is read meanwhile.
    What cannot be told is None or empty, with the reason under the field's name in `unavailable`: a torch
    that is missing, broken or crashes is no error. Raises UsageError or WorkerError when the interpreter does
    not start.
    """
    with Worker(python, "probe") as worker:
        nvml = _in_background(_read_nvml)
        probed, missing = _probe(worker, timeout, on_progress)
    report = nvml(min(timeout, _NVML_TIMEOUT))
    torch, devices = _torch(probed.get("torch"))
    gpus = join_devices(
        report.gpus,
        devices,
        no_nvml=report.unavailable.get("gpus", "NVML does not list it"),
        no_torch=_no_torch(torch, missing),
        limited=bool(_limits()),
    )
    unavailable = {**report.unavailable, **missing}
    if gpus:
        unavailable.pop("gpus", None)
    libraries = probed.get("libraries")
    return Server(
        python=str(probed["python"]["version"]),
        interpreter=str(python),
        driver=report.driver,
        driver_cuda=report.driver_cuda,
        gpus=gpus,
        torch=torch,
        packages=from_builtins(probed.get("packages", {}), dict[str, Package], "the probe's packages"),
        libraries=None if libraries is None else from_builtins(libraries, Libraries, "the probe's tables"),
        disks=read_disks(runs_dir, unavailable),
        unavailable=unavailable,
        **_host(),
    )


def _host() -> dict[str, Any]:
    return {
        "time": now(),
        "hostname": plain_line(platform.node()),
        "system": platform.system(),
        "machine": platform.machine(),
        "cores": count_cores(),
        "memory_total": total_memory(),
        "environment": read_environment(),
    }


def _probe(
    worker: Worker, timeout: float, on_progress: ProgressCallback | None
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the parts that the probe handed over and the reasons for those that it did not."""
    parts: dict[str, Any] = {}
    try:
        reasons = worker.ask("probe", timeout=timeout, on_progress=on_progress, on_part=parts.__setitem__)
    except (WorkerDiedError, WorkerTimeoutError) as error:
        # An import that takes the process with it; the interpreter itself is good when it has said anything.
        if "python" not in parts:
            raise
        reason = plain_line(str(error))
        return parts, {name: reason for name in ("packages", "torch", "libraries") if name not in parts}
    return parts, reasons


def _torch(part: dict[str, Any] | None) -> tuple[Torch | None, tuple[Gpu, ...]]:
    """Return torch's own record and its devices as far as it knows them."""
    if part is None:
        return None, ()
    fields = dict(part)
    devices = from_builtins(fields.pop("devices"), tuple[Gpu, ...], "the probe's devices")
    return from_builtins(fields, Torch, "the probe's torch"), devices


def _no_torch(torch: Torch | None, missing: dict[str, str]) -> str:
    """Return the reason why torch does not see a GPU that NVML lists."""
    if torch is None:
        return missing.get("torch", "torch was not asked")
    if not torch.device_count:
        return torch.unavailable.get("devices", "torch sees no device")
    under = " and ".join(f"{name}={harmless(os.environ[name])}" for name in _limits())
    return f"torch does not see it under {under}" if under else "torch does not see it"


def _limits() -> list[str]:
    """Return the variables that hide GPUs from torch."""
    return [name for name in _LIMITING if name in os.environ]


def _read_nvml() -> NvmlReport:
    with Nvml() as nvml:
        return nvml.read_gpus()


def _in_background(read: Callable[[], NvmlReport]) -> Callable[[float], NvmlReport]:
    """Start `read` in a thread; return a function that waits for its result, at most so many seconds.

    A daemon, since a call that hangs in the driver cannot be ended, and the program must still be able to.
    """
    result: list[NvmlReport] = []
    thread = threading.Thread(target=lambda: result.append(read()), daemon=True, name="NVML")
    thread.start()

    def wait(timeout: float) -> NvmlReport:
        thread.join(timeout)
        if result:
            return result[0]
        reason = f"NVML has not answered in {timeout:.0f} s: the driver hangs (look at dmesg)"
        return NvmlReport((), None, None, dict.fromkeys(("gpus", "driver", "driver_cuda"), reason))

    return wait
