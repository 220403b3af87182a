"""The GPUs that a plan's run would see."""

from __future__ import annotations

from kerneltui.facts.devices import visible_gpus
from kerneltui.facts.server import Gpu, Server
from kerneltui.plan.plan import Plan

VISIBLE = "CUDA_VISIBLE_DEVICES"


def chosen_gpus(plan: Plan, server: Server) -> tuple[Gpu, ...]:
    """Return the GPUs of the launch, else those that CUDA_VISIBLE_DEVICES (the plan's, else the person's) shows."""
    if plan.launch.gpus is not None:
        return tuple(gpu for gpu in server.gpus if gpu.index in plan.launch.gpus)
    visible = plan.environment.get(VISIBLE, server.environment.get(VISIBLE))
    return server.gpus if visible is None else visible_gpus(server.gpus, visible)


def count_devices(plan: Plan, server: Server) -> int | None:
    """Return how many GPUs torch would count in the run; None where it is not known what torch sees."""
    torch = server.torch
    if torch is None:
        return None
    chosen = plan.launch.gpus is not None or VISIBLE in plan.environment
    # A torch that sees none although nothing hides them sees none of those that are named either.
    if not chosen or not server.gpus or not (torch.device_count or VISIBLE in server.environment):
        return torch.device_count
    return len(chosen_gpus(plan, server))
