"""The GPUs that a plan's run would see."""

from __future__ import annotations

from collections.abc import Iterable

from kerneltui.facts.server import Gpu, Server
from kerneltui.facts.visible import is_divided, visible_gpus
from kerneltui.plan.plan import Plan

VISIBLE = "CUDA_VISIBLE_DEVICES"
ORDER = "CUDA_DEVICE_ORDER"


def chosen_gpus(plan: Plan, server: Server) -> tuple[Gpu, ...]:
    """Return what one process of the run sees, by the launch's GPUs, else by CUDA_VISIBLE_DEVICES.

    That is the plan's, else the person's. Parts of divided cards are as `visible_gpus` tells them, and where the plan
    leaves the choice as it was when torch was asked, no more than torch counted.
    """
    seen = visible_gpus(server.gpus, named_devices(plan, server), driver=server.driver)
    asked = plan.launch.gpus is None and VISIBLE not in plan.environment
    counted = server.torch.device_count if server.torch else 0
    return seen[:counted] if asked and counted and any(map(is_divided, seen)) else seen


def named_devices(plan: Plan, server: Server) -> str | None:
    """Return the run's CUDA_VISIBLE_DEVICES: the launch's GPUs, else the plan's or the person's; None where unset.

    Numbers of the launch that are not there are left out: CUDA would hide what is named after one.
    """
    if plan.launch.gpus is not None:
        there = {gpu.index for gpu in server.gpus}
        return name_gpus([number for number in plan.launch.gpus if number in there], server)
    return plan.environment.get(VISIBLE, server.environment.get(VISIBLE))


def name_gpus(numbers: Iterable[int], server: Server) -> str:
    """Return the value of CUDA_VISIBLE_DEVICES for these GPUs: numbers, or UUIDs where a card is divided.

    With divided cards CUDA counts otherwise; of such a card its first part is named.
    """
    cards = {gpu.index: gpu for gpu in server.gpus} if any(map(is_divided, server.gpus)) else {}
    return ",".join(_name(cards.get(number), number) for number in numbers)


def _name(gpu: Gpu | None, number: int) -> str:
    parts = gpu.mig_instances or () if gpu is not None and gpu.mig else ()
    first = parts[0].uuid if parts else None
    return first or (gpu.uuid if gpu is not None else None) or str(number)


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
