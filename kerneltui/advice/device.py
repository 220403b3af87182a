"""The device: whether torch sees the GPU that the plan wants, and has code for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from packaging.version import InvalidVersion, Version

from kerneltui.advice.finding import Finding, Fix
from kerneltui.advice.fixes import install, use_native
from kerneltui.advice.situation import Situation
from kerneltui.facts.server import Gpu

_AMPERE = (8, 0)
_USE_CPU = Fix(label="Train on the CPU", changes={"use_cpu": True})


def no_gpu(situation: Situation) -> list[Finding]:
    """TRL's bf16, which is on by default, is refused where torch sees no GPU, unless use_cpu is set."""
    server, refused = situation.server, situation.autocast == "bfloat16"
    unseen = bool(server.gpus)
    if situation.on_gpu is not False or situation.settings.get("use_cpu") or _driver_too_old(situation):
        return []
    if not refused and not unseen:
        return []
    reason = server.torch.unavailable.get("devices", "") if server.torch and unseen else ""
    return [
        Finding(
            id="device.no_gpu",
            severity="block" if refused else "warn",
            title="torch sees no GPU, although the driver lists one" if unseen else "This server has no GPU",
            why=(
                "TRL turns bf16 on unless fp16 is set, and transformers refuses that without a GPU. "
                "use_cpu is enough to train on the CPU, slowly."
                if refused
                else "Training would run on the CPU."
            )
            + (f"\ntorch says: {reason}" if reason else ""),
            origin="asked",
            source=situation.cite("transformers", "TrainingArguments.__post_init__"),
            fixes=(_USE_CPU,),
        )
    ]


def old_driver(situation: Situation) -> list[Finding]:
    """A torch built for a newer CUDA than the driver runs sees no GPU; within one major version it does."""
    server = situation.server
    if not _driver_too_old(situation) or server.torch is None or situation.settings.get("use_cpu"):
        return []
    return [
        Finding(
            id="device.driver",
            severity="block",
            title=f"The driver runs CUDA {server.driver_cuda}, and torch is built for CUDA {server.torch.cuda}",
            why=f"Driver {server.driver} is too old for this torch, which therefore sees no GPU. Either the driver is "
            f"updated, or a torch that is built for CUDA {server.driver_cuda} or older is installed.",
            origin="known",
            source="https://github.com/pytorch/pytorch/issues/162531",
            fixes=(_USE_CPU,),
        )
    ]


def missing_gpu(situation: Situation) -> list[Finding]:
    """The GPUs that the plan names must be there."""
    chosen, gpus = situation.plan.launch.gpus or (), situation.server.gpus
    indices = [gpu.index for gpu in gpus if gpu.index is not None]
    absent = [number for number in chosen if number not in indices]
    if not absent or not indices or situation.settings.get("use_cpu"):
        return []
    return [
        Finding(
            id="device.missing_gpu",
            severity="block",
            title=f"There is no GPU {', '.join(map(str, absent))} on this server",
            why=f"It has {', '.join(map(str, sorted(indices)))}, in PCI bus order.",
            origin="asked",
            source="the server report",
        )
    ]


def torch_without_architecture(situation: Situation) -> list[Finding]:
    """A torch that was not built for the GPU's architecture fails at the first operation."""
    torch = situation.server.torch
    if torch is None or not torch.cuda or not torch.arch_list:
        return []
    foreign = [gpu for gpu in _gpus(situation) if gpu.capability and not _built_for(torch.arch_list, gpu.capability)]
    if not foreign:
        return []
    # An older card needs an older torch, and which one cannot be told here.
    newer = (foreign[0].capability or _AMPERE) > _AMPERE
    upgrade = install(situation, "Install a newer torch", "--upgrade", "torch")
    return [
        Finding(
            id="device.architecture",
            severity="block",
            title=f"This torch is not built for {card(foreign[0])}",
            why=f"torch {torch.version} has code for {', '.join(torch.arch_list)}. "
            "The first operation on the GPU would fail: no kernel image is available.",
            origin="asked",
            source="https://github.com/pytorch/pytorch/issues/150733 (torch.cuda.get_arch_list)",
            fixes=(upgrade,) if newer else (),
        )
    ]


def flash_before_ampere(situation: Situation) -> list[Finding]:
    """FlashAttention runs on compute capability 8.0 or newer."""
    old = before_ampere(situation)
    if not old or not is_flash(situation):
        return []
    return [
        Finding(
            id="device.flash",
            severity="block",
            title=f"FlashAttention does not run on {card(old[0])}",
            why="It needs Ampere (compute capability 8.0) or newer. sdpa picks another algorithm on older cards.",
            origin="known",
            source="https://github.com/Dao-AILab/flash-attention/issues/762",
            fixes=(use_native(situation),),
        )
    ]


def gpu_kernel_on_cpu(situation: Situation) -> list[Finding]:
    """The build of torch decides on the kernel, so that a run on the CPU may get one for the GPU."""
    choice, build = situation.attention, situation.build
    gpu_build = build is not None and re.search(r"-(cu\d+|cuda|rocm\w*)(-|$)", build.variant or "")
    if situation.on_gpu is not False or not (gpu_build or choice.kind == "package"):
        return []
    return [
        Finding(
            id="device.kernel_on_cpu",
            severity="block",
            title=f"{choice.implementation} runs on a GPU, and this run computes on the CPU",
            why="What loads goes by the build of torch, not by where the model lies; the kernel then refuses tensors "
            "on the CPU at the first forward pass.",
            origin="asked",
            source=situation.cite("kernels", "backends._backend"),
            fixes=(use_native(situation),),
        )
    ]


def is_flash(situation: Situation) -> bool:
    """Whether a FlashAttention runs; kernels of another name may compute otherwise."""
    choice = situation.attention
    return choice.flash and "flash" in choice.implementation and "metal" not in choice.implementation


def _driver_too_old(situation: Situation) -> bool:
    """Whether torch sees no GPU because the driver runs an older major version of CUDA than torch is built for."""
    torch = situation.server.torch
    built, runs = _version(torch.cuda if torch else None), _version(situation.server.driver_cuda)
    return bool(built and runs and built.major > runs.major) and situation.on_gpu is False


def _gpus(situation: Situation) -> tuple[Gpu, ...]:
    return situation.gpus if situation.on_gpu else ()


def before_ampere(situation: Situation) -> list[Gpu]:
    """Return the GPUs of the run that are older than compute capability 8.0."""
    return [gpu for gpu in _gpus(situation) if gpu.capability and gpu.capability < _AMPERE]


def card(gpu: Gpu) -> str:
    """Return the name of a GPU with its compute capability."""
    major, minor = gpu.capability or (0, 0)
    return f"{gpu.name or 'this GPU'} (compute capability {major}.{minor})"


def _built_for(arch_list: Iterable[str], capability: tuple[int, int]) -> bool:
    """Whether torch has code for a GPU: a binary (sm_), or text that the driver compiles for newer ones (compute_)."""
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


def _version(text: str | None) -> Version | None:
    try:
        return Version(text) if text else None
    except InvalidVersion:
        return None


RULES: tuple[Callable[[Situation], list[Finding]], ...] = (
    no_gpu,
    old_driver,
    missing_gpu,
    torch_without_architecture,
    flash_before_ampere,
    gpu_kernel_on_cpu,
)
