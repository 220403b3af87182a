"""GPUs in words."""

from __future__ import annotations

from collections.abc import Sequence

from kerneltui.facts.server import Gpu

GIB = 1 << 30


def card(gpu: Gpu) -> str:
    """Return the name of a GPU, with its compute capability where it is told."""
    name = gpu.name or "this GPU"
    return f"{name} (compute capability {gpu.capability[0]}.{gpu.capability[1]})" if gpu.capability else name


def numbered(gpus: Sequence[Gpu]) -> str:
    """Return "GPU 0" or "GPUs 0, 3"; the names where there are no numbers."""
    if any(gpu.index is None for gpu in gpus):
        return ", ".join(gpu.name or gpu.uuid or "a GPU" for gpu in gpus)
    return f"GPU{'s' if len(gpus) > 1 else ''} {', '.join(str(gpu.index) for gpu in gpus)}"


def gib(size: int | None) -> str:
    """Return bytes as GiB, without digits from 10 on; a dash for None."""
    if size is None:
        return "–"
    return f"{size / GIB:.0f} GiB" if size >= 10 * GIB else f"{size / GIB:.1f} GiB"


def are(gpus: Sequence[Gpu]) -> str:
    """Return "is" for one card, "are" for several."""
    return "is" if len(gpus) == 1 else "are"


def smi_number(gpu: Gpu) -> str:
    """Return what `nvidia-smi -i` takes for a card."""
    return str(gpu.uuid or (gpu.index if gpu.nvml_index is None else gpu.nvml_index))
