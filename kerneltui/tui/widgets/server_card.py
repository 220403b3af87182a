"""The server in one card, and in one line."""

from __future__ import annotations

from textual.content import Content

from kerneltui.facts.server import PENDING, Gpu, Server
from kerneltui.text import plain_line

_BAR = 20
_VERSIONS = ("torch", "trl", "transformers", "kernels", "liger-kernel")


def headline(server: Server, *, recorded: bool = False) -> Content:
    """Return the server in one line: host, GPUs, driver, torch; `recorded` tells that it is known by its report."""
    names = [plain_line(gpu.name or "GPU").removeprefix("NVIDIA ") for gpu in server.gpus]
    cards = " + ".join(f"{name} ×{names.count(name)}" for name in dict.fromkeys(names)) or "no GPU"
    host = plain_line(server.hostname)
    parts = [f"{host}, by its report of {plain_line(server.time)[:10]}" if recorded else host, cards]
    if server.driver:
        parts.append(f"driver {server.driver}")
    if server.torch or server.unavailable.get("torch") != PENDING:
        parts.append(f"torch {server.torch.version}" if server.torch else "no torch")
    return Content.styled(" · ".join(parts), "$secondary")


def server_card(server: Server) -> Content:
    """Return the card: each GPU with its memory, then the packages; what is missing says why."""
    lines = [line for gpu in server.gpus for line in _gpu_lines(gpu)]
    reason = server.unavailable.get("gpus", "none was found")
    if not server.gpus and reason != PENDING:
        lines.append(Content(f"· no GPU: {plain_line(reason)}"))
        lines.append(Content.styled("  training runs on the CPU", "$secondary"))
    lines.append(Content(""))
    versions = [f"{name} {server.packages[name].version}" for name in _VERSIONS if name in server.packages]
    if versions or server.unavailable.get("packages") != PENDING:
        lines.append(Content.styled(" · ".join(versions) or "no training packages", "$secondary"))
    lines += [
        Content(f"✖ {name}: {plain_line(package.error)}") for name, package in server.packages.items() if package.error
    ]
    return Content("\n").join(lines)


def _gpu_lines(gpu: Gpu) -> list[Content]:
    name = plain_line(gpu.name or "GPU").removeprefix("NVIDIA ")
    head = f"{gpu.index if gpu.index is not None else '–'}  {name}  "
    values = [
        f"{gpu.utilization} %" if gpu.utilization is not None else None,
        f"{gpu.power:.0f} W" if gpu.power is not None else None,
        f"{gpu.temperature} °C" if gpu.temperature is not None else None,
    ]
    tail = "  ".join(value for value in values if value)
    lines = [Content.assemble(head, *_memory(gpu), f"  {tail}")]
    if gpu.processes:
        users = [f"{plain_line(it.command or f'pid {it.pid}')} {_gib(it.memory)}".strip() for it in gpu.processes[:3]]
        lines.append(Content.styled("   " + " · ".join(users), "$secondary"))
    return lines


def _memory(gpu: Gpu) -> list[tuple[str, str] | str]:
    if gpu.memory_total is None or gpu.memory_used is None:
        return [("memory not available", "$secondary")]
    full = round(_BAR * min(1.0, gpu.memory_used / gpu.memory_total))
    return [
        ("━" * full, "$primary"),
        ("─" * (_BAR - full), "$border"),
        f" {gpu.memory_used / 2**30:.0f} / {_gib(gpu.memory_total)}",
    ]


def _gib(size: int | None) -> str:
    return "" if size is None else f"{size / 2**30:.0f} GiB"
