"""What the cards are and cannot compute: dtypes, kinds, shared memory."""

from __future__ import annotations

from collections.abc import Callable

from kerneltui.advice.finding import Finding
from kerneltui.advice.health.naming import card, gib, numbered
from kerneltui.facts.server import AMPERE, Server


def before_ampere(server: Server) -> list[Finding]:
    """Cards before Ampere compute neither in bfloat16 nor with FlashAttention 2."""
    old = [gpu for gpu in server.gpus if gpu.capability and gpu.capability < AMPERE]
    if not old:
        return []
    return [
        Finding(
            id="gpu.before_ampere",
            severity="note",
            title=f"{card(old[0])} has neither bfloat16 nor FlashAttention",
            why="Both came with Ampere (compute capability 8.0). Train in float16 (fp16: true), with sdpa.",
            origin="known",
            source="https://github.com/Dao-AILab/flash-attention/issues/762",
        )
    ]


def no_bfloat16(server: Server) -> list[Finding]:
    """A newer card may lack bfloat16 as well, by torch's own word."""
    torch = server.torch
    if torch is None or torch.bf16 is not False or not torch.device_count or before_ampere(server):
        return []
    return [
        Finding(
            id="gpu.bf16",
            severity="note",
            title="By torch's word the first GPU does not compute in bfloat16",
            why="Train in float16 (fp16: true); TRL turns bf16 on by default.",
            origin="asked",
            source="torch.cuda.is_bf16_supported",
        )
    ]


def numbering(server: Server) -> list[Finding]:
    """Cards that differ are counted in another order by CUDA than by nvidia-smi, unless it is told not to."""
    kinds = {(gpu.name, gpu.memory_total) for gpu in server.gpus}
    if len(kinds) < 2:
        return []
    lines = [f"{numbered([gpu])}: {card(gpu)}, {gib(gpu.memory_total)}" for gpu in server.gpus]
    return [
        Finding(
            id="gpu.mixed",
            severity="note",
            title="The GPUs are not of one kind",
            why="\n".join(lines) + "\nThe numbers are those of nvidia-smi. CUDA counts the fastest card first unless "
            "CUDA_DEVICE_ORDER=PCI_BUS_ID is set, which launched runs get. Together they train at the pace of the "
            "slowest, with the memory of the smallest.",
            origin="known",
            source="https://github.com/pytorch/pytorch/issues/86539",
        )
    ]


def unified(server: Server) -> list[Finding]:
    """Some cards share the host's memory."""
    shared = [gpu for gpu in server.gpus if gpu.memory_unified]
    if not shared:
        return []
    return [
        Finding(
            id="gpu.unified",
            severity="note",
            title=f"{shared[0].name or 'The GPU'} shares its memory with the host",
            why="What other programs and the data take is missing on the GPU, and a run that takes too much is ended "
            "by the system instead of with CUDA's error.",
            origin="known",
            source="https://github.com/XuehaiPan/nvitop/issues/208",
        )
    ]


RULES: tuple[Callable[[Server], list[Finding]], ...] = (before_ampere, no_bfloat16, numbering, unified)
