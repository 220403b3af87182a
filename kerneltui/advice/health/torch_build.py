"""torch: whether its build uses the GPUs that the driver lists."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from kerneltui.advice.finding import Finding, Fix, Severity
from kerneltui.advice.fixes import install
from kerneltui.advice.health.naming import card
from kerneltui.facts.packages import read_version
from kerneltui.facts.server import Gpu, Server

# What PyTorch's wheels have code for: cu126 for capability 5.0 to 9.0, cu128 from 7.5 to 12.0, cu130 from 7.5 on.
# Source: https://github.com/pytorch/pytorch/issues/157517 (torch 2.8 and newer), as of 2026-12-01.
_TURING, _BLACKWELL = (7, 5), (10, 0)
_WHEELS = "https://download.pytorch.org/whl"


def cpu_build(server: Server) -> list[Finding]:
    """A torch that was built without CUDA computes on the CPU, whatever the machine has."""
    torch = server.torch
    if torch is None or torch.cuda or torch.hip or torch.xpu or not _nvidia(server):
        return []
    return [
        Finding(
            id="torch.cpu_build",
            severity="block",
            title=f"torch {torch.version} is built without CUDA, and this machine has {card(server.gpus[0])}",
            why="It computes on the CPU only. Another package, or an index of packages for the CPU, brought it here.",
            origin="asked",
            source="torch.version.cuda",
            fixes=fitting_torch(server),
        )
    ]


def hidden(server: Server) -> list[Finding]:
    """CUDA_VISIBLE_DEVICES may hide every GPU."""
    name = "CUDA_VISIBLE_DEVICES"
    if not _sees_none(server) or name not in server.environment:
        return []
    value = server.environment[name]
    return [
        Finding(
            id="torch.hidden",
            severity="warn",
            title=f"{name}={value} hides all GPUs from torch",
            why="An empty value, -1, or a number or UUID that this machine does not have shows none of them.",
            origin="known",
            source="https://docs.nvidia.com/cuda/cuda-c-programming-guide/#cuda-environment-variables",
            fixes=(Fix(label="Show them", command=f"unset {name}"),),
        )
    ]


def no_device(server: Server) -> list[Finding]:
    """The driver lists GPUs that torch cannot use, and says why."""
    torch = server.torch
    if torch is None or not _sees_none(server) or "CUDA_VISIBLE_DEVICES" in server.environment:
        return []
    if all(gpu.mig and not gpu.mig_instances for gpu in server.gpus):
        return []
    reason = torch.unavailable.get("devices")
    return [
        Finding(
            id="torch.no_device",
            severity="block",
            title="torch sees no GPU, although the driver lists one",
            why=f"torch says: {reason}" if reason else "torch gives no reason.",
            origin="asked",
            source="torch.cuda.init",
        )
    ]


def architecture(server: Server) -> list[Finding]:
    """A torch that has no code for a card fails on it at the first operation."""
    torch = server.torch
    return foreign_architecture(server, server.gpus) if torch and torch.device_count else []


def foreign_architecture(server: Server, gpus: Sequence[Gpu]) -> list[Finding]:
    """Return the finding that torch has no code for some of `gpus`; it blocks where it has code for none of them."""
    torch = server.torch
    if torch is None or not torch.cuda or not torch.arch_list:
        return []
    known = [gpu for gpu in gpus if gpu.capability]
    foreign = [gpu for gpu in known if gpu.capability and not built_for(torch.arch_list, gpu.capability)]
    if not foreign:
        return []
    severity: Severity = "block" if len(foreign) == len(known) else "warn"
    return [
        Finding(
            id="device.architecture",
            severity=severity,
            title=f"This torch is not built for {card(foreign[0])}",
            why=f"torch {torch.version} has code for {', '.join(torch.arch_list)}. "
            "The first operation on the GPU would fail: no kernel image is available.",
            origin="asked",
            source="https://github.com/pytorch/pytorch/issues/150733 (torch.cuda.get_arch_list)",
            fixes=fitting_torch(server),
        )
    ]


def fitting_torch(server: Server) -> tuple[Fix, ...]:
    """Return the fix that installs a torch which this driver runs and which has code for these cards; or none."""
    cuda = _fitting_cuda(server)
    if cuda is None:
        return ()
    label = f"Install a torch that is built for CUDA {cuda[2:4]}.{cuda[4]}"
    return (install(server, label, "--force-reinstall", "torch", "--index-url", f"{_WHEELS}/{cuda}"),)


def _fitting_cuda(server: Server) -> str | None:
    driver = read_version(server.driver_cuda)
    capabilities = [gpu.capability for gpu in server.gpus if gpu.capability]
    if driver is None or driver.major < 12:
        return None
    if capabilities and min(capabilities) < _TURING:
        return "cu126" if max(capabilities) < _BLACKWELL else None
    return "cu130" if driver.major >= 13 else "cu128"


def built_for(arch_list: Iterable[str], capability: tuple[int, int]) -> bool:
    """Return whether torch has code for a GPU: a binary (sm_), or text that the driver compiles (compute_)."""
    for arch in arch_list:
        found = re.fullmatch(r"(sm|compute)_(\d+)(\d)([af]?)", arch)
        if found is None:
            return True
        built = (int(found[2]), int(found[3]))
        exact, newer = found[4] == "a", found[1] == "compute"
        same = capability[0] == built[0] and capability[1] >= built[1]
        if capability == built or (not exact and (same or (newer and capability >= built))):
            return True
    return False


def _sees_none(server: Server) -> bool:
    """Whether a torch with CUDA sees no device although NVML lists some that the driver could serve it."""
    torch = server.torch
    if torch is None or not torch.cuda or torch.device_count or not _nvidia(server):
        return False
    built, runs = read_version(torch.cuda), read_version(server.driver_cuda)
    return not (built and runs and built.major > runs.major)


def _nvidia(server: Server) -> bool:
    return any(gpu.nvml_index is not None for gpu in server.gpus)


RULES: tuple[Callable[[Server], list[Finding]], ...] = (cpu_build, hidden, no_device, architecture)
