"""The driver and NVML: why no GPU is seen, and whether the driver is new enough for torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kerneltui.advice.finding import Finding, Fix, Severity
from kerneltui.advice.health.torch_build import fitting_torch
from kerneltui.facts.packages import read_version
from kerneltui.facts.server import PENDING, Server

# The oldest driver for Linux that runs a major version of CUDA: within one, every minor version runs on it.
# Source: docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html and the CUDA release notes,
# as of 2026-12-01.
OLDEST_DRIVER = {13: "580.65.06", 12: "525.60.13", 11: "450.80.02"}
_COMPATIBILITY = "https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html"


class _Failure(NamedTuple):
    """Why NVML does not start: `words` stand in its reason, in lower case."""

    words: str
    id: str
    title: str
    why: str
    source: str
    fixes: tuple[Fix, ...] = ()


_BLOCKED = _Failure(
    "operating system",
    "driver.blocked",
    "The operating system keeps the GPU to itself",
    "Under WSL the driver is that of Windows: update it there, and start WSL anew.",
    "https://github.com/microsoft/WSL/issues/12859",
    (Fix(label="In Windows, end WSL; it starts anew with the next shell", command="wsl.exe --shutdown"),),
)

_FAILURES = (
    _Failure(
        "mismatch",
        "driver.mismatch",
        "The driver was updated while it ran: its library and its kernel module are of two versions",
        "No program can use the GPUs until both are the same again: restart, or end what uses the GPUs and load the "
        "modules anew.",
        "https://github.com/NVIDIA/open-gpu-kernel-modules/issues/47",
        (
            Fix(label="Restart the machine", command="sudo reboot"),
            Fix(
                label="Or load the modules anew",
                command="sudo rmmod nvidia_drm nvidia_modeset nvidia_uvm nvidia && sudo modprobe nvidia",
            ),
        ),
    ),
    _Failure(
        "not loaded",
        "driver.not_loaded",
        "The driver's kernel module is not loaded",
        "After an update of the kernel it may have to be built anew; `dmesg | grep -i nvidia` says why not.",
        "https://docs.nvidia.com/deploy/nvml-api/ (NVML_ERROR_DRIVER_NOT_LOADED)",
        (Fix(label="Load it", command="sudo modprobe nvidia"),),
    ),
    _Failure(
        "permission",
        "driver.permission",
        "You may not use the GPUs of this machine",
        "The devices /dev/nvidia* are not open to this user. Who runs the server can change that; often it takes a "
        "group, or a job of the cluster's scheduler.",
        "https://docs.nvidia.com/deploy/nvml-api/ (NVML_ERROR_NO_PERMISSION)",
        (Fix(label="See who may", command="ls -l /dev/nvidia*"),),
    ),
    _BLOCKED,
    _Failure(
        "driver hangs",
        "driver.hangs",
        "The driver hangs",
        "Mostly a GPU has failed, which the kernel's log tells (Xid). Ending programs does not help; a restart may.",
        "https://docs.nvidia.com/deploy/xid-errors/",
        (Fix(label="Read the kernel's log", command="sudo dmesg | grep -iE 'nvrm|xid'"),),
    ),
)


def nvml_fails(server: Server) -> list[Finding]:
    """NVML may not start, for reasons that a person can do something about."""
    reason = server.unavailable.get("driver" if server.gpus else "gpus", "")
    failure = None if _has_nvml(server) else _failure(server, reason.lower())
    if failure is None:
        return []
    return [
        Finding(
            id=failure.id,
            severity=_severity(failure, server),
            title=failure.title,
            why=f"{failure.why}\nNVML says: {reason}",
            origin="observed",
            source=failure.source,
            fixes=failure.fixes,
        )
    ]


def _has_nvml(server: Server) -> bool:
    return any(gpu.nvml_index is not None for gpu in server.gpus)


def _failure(server: Server, reason: str) -> _Failure | None:
    """Return what NVML's reason, in lower case, means on this server; None where it is none of the known ones."""
    found = next((it for it in _FAILURES if it.words in reason), None)
    if found is None and "unknown error" in reason:
        found = _lost(server)
    under_wsl = "microsoft" in (server.release or "").lower()
    return _BLOCKED if found and under_wsl and found.id in ("driver.not_loaded", "driver.lost") else found


def _lost(server: Server) -> _Failure:
    """Return what NVML's "Unknown Error" means: in a container its devices were taken away while it ran."""
    where = "container" if server.stay is None or server.stay.container else "machine"
    again = "" if where == "machine" else " The container has to be started anew; what ran in it on a GPU has ended."
    return _Failure(
        "unknown error",
        "driver.lost",
        f"This {where} has lost its GPUs",
        f"A reload of systemd on the host takes the devices away from containers that run.{again}",
        "https://github.com/NVIDIA/nvidia-container-toolkit/issues/1227",
        (Fix(label="On the host", command="docker restart CONTAINER"),) if where == "container" else (),
    )


def nvml_missing(server: Server) -> list[Finding]:
    """A container may have CUDA without NVML's library; training works, and nothing can be measured."""
    torch = server.torch
    reason = server.unavailable.get("driver", "")
    if torch is None or not torch.cuda or not torch.device_count or server.driver:
        return []
    if reason == PENDING or _has_nvml(server) or _failure(server, reason.lower()):
        return []
    return [
        Finding(
            id="driver.no_nvml",
            severity="warn",
            title="torch sees the GPU, but NVML, the library that measures it, is not there",
            why="Training works. Use, temperature, errors and other people's processes cannot be shown. A container "
            f"gets the library with NVIDIA_DRIVER_CAPABILITIES=compute,utility.\nNVML says: {reason or 'nothing'}",
            origin="known",
            source="https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/docker-specialized.html",
            fixes=(
                Fix(
                    label="Start the container with it",
                    command="docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility IMAGE",
                ),
            ),
        )
    ]


def no_gpu(server: Server) -> list[Finding]:
    """Without a GPU training is slow, and most attention kernels do not run."""
    reason = server.unavailable.get("gpus", "")
    if server.gpus or reason == PENDING or server.system == "Darwin" or nvml_fails(server):
        return []
    return [
        Finding(
            id="gpu.none",
            severity="warn",
            title="This server has no GPU, or shows none",
            why="Training would run on the CPU." + (f"\nNVML says: {reason}" if reason else ""),
            origin="observed",
            source="the server report",
        )
    ]


def old_driver(server: Server) -> list[Finding]:
    """A torch built for a newer CUDA than the driver runs sees no GPU; within one major version it does."""
    torch = server.torch
    if torch is None or not is_driver_too_old(server):
        return []
    needed = OLDEST_DRIVER.get(int(str(torch.cuda).partition(".")[0]))
    return [
        Finding(
            id="device.driver",
            severity="block",
            title=f"The driver runs CUDA {server.driver_cuda}, and torch is built for CUDA {torch.cuda}",
            why=f"Driver {server.driver} is too old for this torch, which therefore sees no GPU. "
            + (f"It needs driver {needed} or newer. " if needed else "")
            + f"Either the driver is updated, or a torch that is built for CUDA {server.driver_cuda} or older is "
            "installed.",
            origin="known",
            source=f"https://github.com/pytorch/pytorch/issues/162531; {_COMPATIBILITY}",
            fixes=fitting_torch(server),
        )
    ]


def is_driver_too_old(server: Server) -> bool:
    """Whether torch sees no GPU because the driver runs an older major version of CUDA than torch is built for."""
    torch = server.torch
    built, runs = read_version(torch.cuda if torch else None), read_version(server.driver_cuda)
    return bool(torch and built and runs and built.major > runs.major and not torch.device_count)


def _severity(failure: _Failure, server: Server) -> Severity:
    # A machine without a GPU, such as a login node, may have the driver's library too.
    return "warn" if failure.id == "driver.not_loaded" or (server.torch and server.torch.device_count) else "block"


RULES: tuple[Callable[[Server], list[Finding]], ...] = (nvml_fails, nvml_missing, no_gpu, old_driver)
