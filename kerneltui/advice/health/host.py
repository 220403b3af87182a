"""The machine around the cards: disks, shared memory, memory, and what Triton needs to compile."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import PurePath

from kerneltui.advice.finding import Finding, Fix, Severity
from kerneltui.advice.health.naming import GIB, gib
from kerneltui.facts.server import Disk, Server, Toolchain

# A checkpoint of a model with a billion parameters, with AdamW's state in float32, is about 12 GB.
_LITTLE = 10 * GIB
_NOTHING = GIB // 2
# Docker gives 64 MiB unless it is told otherwise.
_SHARED = GIB
_LITTLE_MEMORY = 8 * GIB


def little_disk(server: Server) -> list[Finding]:
    """A full disk ends a run in the middle of a checkpoint."""
    little = [disk for disk in server.disks if disk.purpose != "shared memory" and disk.free < _LITTLE]
    # Where both lie on one disk it is said once.
    shared = len({disk.total for disk in little}) < len(little)
    return [_disk(disk, shared) for disk in (little[:1] if shared else little)]


def _disk(disk: Disk, shared: bool) -> Finding:
    runs = disk.purpose == "runs"
    severity: Severity = "block" if runs and disk.free < _NOTHING else "warn"
    what = "runs, checkpoints and the Hub's cache" if shared else "runs and checkpoints" if runs else "the Hub's cache"
    left = "a quota leaves you" if disk.quota else "there are"
    elsewhere = "--runs-dir or KERNELTUI_RUNS names" if runs else "HF_HOME names"
    return Finding(
        id=f"disk.{disk.purpose}",
        severity=severity,
        title=f"Little space for {what}: {gib(disk.free)}",
        why=f"On {disk.path} {left} {gib(disk.free)} of {gib(disk.total)}. A checkpoint with the optimizer's state "
        "takes about 12 bytes a parameter; a disk that is full ends the run in the middle of one. "
        f"{elsewhere} another place.",
        origin="observed",
        source="https://github.com/bghira/SimpleTuner/issues/2353",
        fixes=(
            Fix(label="See what takes it", command=f"du -xh --max-depth=1 {shlex.quote(_parent(disk.path))} | sort -h"),
        ),
    )


def _parent(path: str) -> str:
    return str(PurePath(path).parent)


def shared_memory(server: Server) -> list[Finding]:
    """Workers of a data loader and NCCL hand data over through /dev/shm, which is tiny in most containers."""
    disk = next((disk for disk in server.disks if disk.purpose == "shared memory"), None)
    if disk is None or disk.total >= _SHARED:
        return []
    several = bool(server.torch and server.torch.device_count > 1)
    return [
        Finding(
            id="disk.shared_memory",
            severity="warn" if several else "note",
            title=f"Shared memory ({disk.path}) is {gib(disk.total)}",
            why="NCCL, which joins several GPUs, and data loaders with workers (dataloader_num_workers) need more: "
            "they end with a bus error or with 'No space left on device'. It is set when a container is started.",
            origin="known",
            source="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
            fixes=(
                Fix(label="Start the container with more", command="docker run --gpus all --shm-size=16g IMAGE"),
                Fix(label="Or, as root", command=f"sudo mount -o remount,size=16G {shlex.quote(disk.path)}"),
            ),
        )
    ]


def memory(server: Server) -> list[Finding]:
    """The control group of a container or a job may allow far less memory than the machine has."""
    limit, total = server.memory_limit, server.memory_total
    if limit is None or not server.gpus:
        return []
    little = limit < _LITTLE_MEMORY
    if not little and (total is None or limit >= total / 2):
        return []
    return [
        Finding(
            id="memory.limit",
            severity="warn" if little else "note",
            title=f"Programs may use {gib(limit)} of the host's memory ({gib(total)})",
            why="The container, or the job, was given no more; a run that takes more is killed without a word. Weights "
            "go through the host's memory on their way to the GPU.",
            origin="observed",
            source="the control group's memory limit",
        )
    ]


def triton(server: Server) -> list[Finding]:
    """Triton compiles a small C program when the first of its kernels runs; Liger's kernels are Triton's."""
    tools = server.toolchain
    if tools is None or "liger-kernel" not in server.packages or not server.gpus:
        return []
    missing = [name for name, path in (("C compiler", tools.compiler), ("Python headers", tools.headers)) if not path]
    if not missing:
        return []
    return [
        Finding(
            id="triton.toolchain",
            severity="warn",
            title=f"Liger's kernels cannot be compiled: no {' and no '.join(missing)}",
            why="Liger's kernels are written in Triton, which compiles a small C program when the first of them runs. "
            "Training with use_liger_kernel, or with torch.compile, would end there.",
            origin="known",
            source="https://github.com/kubeflow/trainer/issues/2884",
            fixes=_compilers(server, tools),
        )
    ]


def _compilers(server: Server, tools: Toolchain) -> tuple[Fix, ...]:
    if server.installer == "conda":
        prefix = str(PurePath(server.interpreter).parent.parent)
        return (
            Fix(
                label="Install a compiler into the environment",
                command=shlex.join(["conda", "install", "-p", prefix, "-c", "conda-forge", "gcc", "gxx"]),
            ),
        )
    version = ".".join((server.python or "3").split(".")[:2])
    needed = [*([] if tools.compiler else ["gcc"]), *([] if tools.headers else [f"python{version}-dev"])]
    return (Fix(label="On Debian and Ubuntu", command=f"sudo apt-get install {' '.join(needed)}"),)


RULES: tuple[Callable[[Server], list[Finding]], ...] = (little_disk, shared_memory, memory, triton)
