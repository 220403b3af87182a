"""The card that a trial runs on: the first that the plan names, and whether it has room."""

from __future__ import annotations

import msgspec

from kerneltui.advice.situation import Situation
from kerneltui.facts.gpu import Nvml
from kerneltui.facts.server import Gpu
from kerneltui.plan.devices import ORDER, VISIBLE, chosen_gpus, name_gpus, named_devices

_GIB = 1 << 30


def trial_environment(situation: Situation) -> dict[str, str]:
    """Return the variables that a trial's process adds to the person's: the plan's, and its first card alone.

    Where nothing is chosen and no card is known the choice stays as it is.
    """
    plan, server = situation.plan, situation.server
    found = {**plan.environment, "PYTHONUNBUFFERED": "1", ORDER: "PCI_BUS_ID"}
    if not situation.on_gpu:
        return {**found, VISIBLE: ""}
    named = named_devices(plan, server)
    if named is None and situation.gpus and situation.gpus[0].index is not None:
        named = name_gpus([situation.gpus[0].index], server)
    return found if named is None else {**found, VISIBLE: named.split(",")[0]}


def no_room(situation: Situation, need: int) -> str | None:
    """Return why a trial that takes `need` bytes cannot be made on the plan's card now; None where it can.

    The card is read anew. What its driver does not tell is no reason; on the CPU there is none.
    """
    if not situation.on_gpu:
        return None
    gpu = _now(situation)
    if gpu is None or gpu.memory_free is None or gpu.memory_free >= need:
        return None
    held = sorted(gpu.processes or (), key=lambda process: -(process.memory or 0))
    words = ", ".join(
        f"process {process.pid}" + (f" of {process.user}" if process.user else "") for process in held[:3]
    )
    total = f" of {gpu.memory_total / _GIB:.0f}" if gpu.memory_total else ""
    return (
        f"{gpu.name or 'the card'} (GPU {gpu.index}) has {gpu.memory_free / _GIB:.1f}{total} GiB free, "
        f"and this takes up to {need / _GIB:.0f} GiB" + (f"; it is held by {words}" if words else "")
    )


def _now(situation: Situation) -> Gpu | None:
    """Return the plan's first card as it is at this moment, as the report has it where NVML does not answer."""
    with Nvml() as nvml:
        fresh = nvml.read_gpus().gpus
    if not fresh:
        return situation.gpus[0] if situation.gpus else None
    server = msgspec.structs.replace(situation.server, gpus=fresh)
    chosen = chosen_gpus(situation.plan, server)
    return chosen[0] if chosen else None
