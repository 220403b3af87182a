"""Values of one GPU that take more than one NVML call: memory, throttle reasons, processes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import Any

from kerneltui.facts.nvml_call import Readings
from kerneltui.facts.server import GpuProcess
from kerneltui.text import plain_line

MEMORY_FIELDS = ("memory_total", "memory_used", "memory_free", "memory_reserved")

# nvmlClocksThrottleReason… of pynvml; None for what is no throttling.
_THROTTLE_WORDS: dict[str, str | None] = {
    "GpuIdle": None,
    "ApplicationsClocksSetting": "application clocks are set",
    "SwPowerCap": "power cap",
    "HwSlowdown": "hardware slowdown",
    "SyncBoost": "sync boost",
    "SwThermalSlowdown": "thermal slowdown by the driver",
    "HwThermalSlowdown": "thermal slowdown by the hardware",
    "HwPowerBrakeSlowdown": "power brake",
    "DisplayClockSetting": "display clock",
    "BoardLimit": "board limit",
    "Reliability": "reliability limit",
}


def read_memory(nvml: Any, handle: Any, values: Readings) -> dict[str, int | None]:
    """Return memory in bytes under `MEMORY_FIELDS`.

    Asked by the call that tells reserved memory apart, else by the older one, which counts reserved memory as
    used. What is not told is None with the reason, not 0.
    """
    memory = values.get("memory_reserved", lambda: nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2))
    if memory is None:
        memory = values.get("memory_total", lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
    if memory is not None and not memory.total:
        memory = None
        values.unavailable["memory_total"] = "NVML says 0 bytes"
    reason = values.unavailable.get("memory_total") or values.unavailable.get("memory_reserved", "not told")
    read: dict[str, int | None] = {}
    for field in MEMORY_FIELDS:
        value = getattr(memory, field.removeprefix("memory_"), None)
        read[field] = None if value is None else int(value)
        if value is None:
            values.unavailable.setdefault(field, reason)
    return read


def read_throttle(nvml: Any, handle: Any, values: Readings) -> tuple[str, ...] | None:
    """Return in words why the clocks are lowered; empty when they are not, or the GPU is idle."""
    mask = values.get(
        "throttle",
        # The newer name first; drivers before 535 have only the older one.
        lambda: int(nvml.nvmlDeviceGetCurrentClocksEventReasons(handle)),
        lambda: int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)),
    )
    return None if mask is None else throttle_words(nvml, mask)


def throttle_words(nvml: Any, mask: int) -> tuple[str, ...]:
    """Return the words for each bit of `mask`; one that pynvml does not name is given as its number."""
    named = {getattr(nvml, f"nvmlClocksThrottleReason{name}", None): word for name, word in _THROTTLE_WORDS.items()}
    bits = [1 << number for number in range(mask.bit_length()) if mask >> number & 1]
    found = [named.get(bit, f"reason {bit:#x}") for bit in bits]
    return tuple(word for word in found if word)


def read_processes(
    nvml: Any, handle: Any, values: Readings, instances: Sequence[Any] = ()
) -> tuple[GpuProcess, ...] | None:
    """Return who holds memory on the GPU or its `instances`, the largest first; None where it is not told who computes.

    Of a GPU that is split NVML may tell only the owner of the machine about the whole, and everyone about the parts.
    """
    lists = [values.get("processes", *_lists(nvml, handle, "Compute"))]
    for instance in instances:
        lists.append(values.get("processes" if lists[0] is None else "", *_lists(nvml, instance, "Compute")))
    if all(computing is None for computing in lists):
        return None
    values.unavailable.pop("processes", None)
    # Displays and clients of the multi-process service are lists of their own, which many cards do not have.
    lists += [values.get("", *_lists(nvml, handle, kind)) for kind in ("Graphics", "MPSCompute")]
    held: dict[int, int | None] = {}
    for process in itertools.chain.from_iterable(computing or [] for computing in lists):
        held[process.pid] = max(process.usedGpuMemory or 0, held.get(process.pid) or 0) or None
    found = [describe_process(pid, memory) for pid, memory in held.items()]
    return tuple(sorted(found, key=lambda process: (-(process.memory or 0), process.pid)))


def _lists(nvml: Any, handle: Any, kind: str) -> list[Callable[[], list[Any]]]:
    """Return the calls for a list of processes: as this pynvml has it, and as older drivers have it."""
    name = f"nvmlDeviceGet{kind}RunningProcesses"
    return [lambda: list(getattr(nvml, name)(handle)), lambda: list(getattr(nvml, f"{name}_v2")(handle))]


def describe_process(pid: int, memory: int | None) -> GpuProcess:
    """Return a process with its user and command where the system shows them to this user.

    In a container the driver may give the host's process numbers, which are not visible here.
    """
    import psutil

    user, command = None, None
    try:
        process = psutil.Process(pid)
        command = _short_command(process.cmdline()) or plain_line(process.name())
        user = plain_line(process.username())
    except (psutil.Error, OSError, KeyError):
        pass
    return GpuProcess(pid=pid, user=user, command=command, memory=memory)


def _short_command(arguments: list[str]) -> str | None:
    """Return the program and what it runs ("python train.py", "python -m trl.scripts.sft"), no more.

    Later arguments may hold a token, and the report is made to be given to others.
    """
    if not arguments or not arguments[0]:
        return None
    shown = [PurePath(arguments[0]).name]
    if arguments[1:2] == ["-m"]:
        shown += arguments[1:3]
    elif len(arguments) > 1 and not arguments[1].startswith("-"):
        shown.append(PurePath(arguments[1]).name)
    return plain_line(" ".join(shown))[:200]
