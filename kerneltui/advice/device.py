"""The device: whether torch sees the GPU that the plan wants, and has code for it."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from kerneltui.advice.finding import Finding, Fix
from kerneltui.advice.fixes import use_native
from kerneltui.advice.health import driver
from kerneltui.advice.health.naming import card
from kerneltui.advice.health.torch_build import foreign_architecture
from kerneltui.advice.numbering import missing_gpu
from kerneltui.advice.situation import Situation
from kerneltui.facts.server import AMPERE, Gpu
from kerneltui.plan.devices import count_devices

_USE_CPU = Fix(label="Train on the CPU", changes={"use_cpu": True})


def no_gpu(situation: Situation) -> list[Finding]:
    """TRL's bf16, which is on by default, is refused where torch sees no GPU, unless use_cpu is set."""
    server, refused = situation.server, situation.autocast == "bfloat16"
    unseen = bool(server.gpus)
    if situation.on_gpu is not False or situation.settings.get("use_cpu") or _driver_too_old(situation):
        return []
    if missing_gpu(situation):
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
    """A torch built for a newer CUDA than the driver runs sees no GPU."""
    if not _driver_too_old(situation) or situation.settings.get("use_cpu"):
        return []
    found = driver.old_driver(situation.server)
    return [msgspec.structs.replace(finding, fixes=(*finding.fixes, _USE_CPU)) for finding in found]


def more_processes_than_gpus(situation: Situation) -> list[Finding]:
    """Each process on a machine has a GPU of its own: NCCL refuses two on the same."""
    count = count_devices(situation.plan, situation.server)
    if not situation.on_gpu or not count or situation.processes <= count * situation.settings.machines:
        return []
    if missing_gpu(situation):
        return []
    return [
        Finding(
            id="device.processes",
            severity="block",
            title=f"accelerate would start {situation.processes} processes for {count} GPU{'s' if count > 1 else ''}",
            why="Each needs a GPU of its own; NCCL refuses two on the same one. num_processes says how many there are, "
            "else the configuration file of accelerate.",
            origin="known",
            source="accelerate: state.PartialState.set_device (the local process number modulo the number of GPUs)",
            fixes=(Fix(label=f"Set num_processes to {count}", changes={"num_processes": count}),),
        )
    ]


def torch_without_architecture(situation: Situation) -> list[Finding]:
    """A torch that was not built for one of the run's cards fails at the first operation."""
    found = foreign_architecture(situation.server, _gpus(situation))
    return [msgspec.structs.replace(finding, severity="block") for finding in found]


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
    return choice.called_as_flash and "flash" in choice.implementation and "metal" not in choice.implementation


def _driver_too_old(situation: Situation) -> bool:
    return situation.on_gpu is False and driver.is_driver_too_old(situation.server)


def _gpus(situation: Situation) -> tuple[Gpu, ...]:
    return situation.gpus if situation.on_gpu else ()


def before_ampere(situation: Situation) -> list[Gpu]:
    """Return the GPUs of the run that are older than compute capability 8.0."""
    return [gpu for gpu in _gpus(situation) if gpu.capability and gpu.capability < AMPERE]


RULES: tuple[Callable[[Situation], list[Finding]], ...] = (
    no_gpu,
    old_driver,
    more_processes_than_gpus,
    torch_without_architecture,
    flash_before_ampere,
    gpu_kernel_on_cpu,
)
