"""Which GPUs a plan names: whether they are there, named once, and those that the run will see."""

from __future__ import annotations

from collections.abc import Callable

from kerneltui.advice.finding import Finding, Fix
from kerneltui.advice.fixes import set_variable
from kerneltui.advice.health.naming import card, gib
from kerneltui.advice.situation import Situation
from kerneltui.facts.server import Gpu, Server
from kerneltui.facts.visible import is_divided, parts_of, visible_gpus
from kerneltui.plan.devices import ORDER, VISIBLE
from kerneltui.plan.plan import file_variables

_MIG = "https://docs.nvidia.com/datacenter/tesla/mig-user-guide/mig-device-names.html"
_BY_BUS = "PCI_BUS_ID"


def missing_gpu(situation: Situation) -> list[Finding]:
    """The GPUs that the plan names must be there."""
    server, named = situation.server, _named(situation)
    indices = sorted(gpu.index for gpu in server.gpus if gpu.index is not None)
    absent = [name for name in named if _is_absent(name, situation)]
    if not absent or not indices or situation.settings.get("use_cpu"):
        return []
    if any(not name.isdigit() for name in absent):
        return [_missing_name(situation, absent)]
    numbers, absent_numbers = [int(name) for name in named], [int(name) for name in absent]
    there = [number for number in numbers if number not in absent_numbers]
    fitting = ",".join(map(str, [*there, *(number for number in indices if number not in there)][: len(named)]))
    by_flag = situation.plan.launch.gpus is not None
    return [
        Finding(
            id="device.missing_gpu",
            severity="block",
            title=f"There is no GPU {', '.join(absent)} on this server",
            why=f"It has {', '.join(map(str, indices))}, in PCI bus order. "
            f"{'--gpus ' if by_flag else f'{VISIBLE}='}{fitting} would do.",
            origin="asked",
            source="the server report",
            fixes=() if by_flag else set_variable(situation, "Name GPUs that are there", VISIBLE, fitting),
        )
    ]


def _named(situation: Situation) -> tuple[str, ...]:
    """Return what the plan names GPUs by: numbers, or beginnings of UUIDs."""
    if situation.plan.launch.gpus is not None:
        return tuple(map(str, situation.plan.launch.gpus))
    names = map(str.strip, situation.plan.environment.get(VISIBLE, "").split(","))
    return tuple(name for name in names if name.startswith(("GPU-", "MIG-")) or (name.isascii() and name.isdigit()))


def _is_absent(name: str, situation: Situation) -> bool:
    server = situation.server
    if situation.plan.launch.gpus is not None:
        return all(str(gpu.index) != name for gpu in server.gpus)
    if not name.isdigit() and any(gpu.uuid is None for gpu in server.gpus):
        return False
    return not visible_gpus(server.gpus, name, driver=server.driver)


def _missing_name(situation: Situation, absent: list[str]) -> Finding:
    parts = any(name.startswith("MIG-") for name in absent)
    there = _parts(situation.server) if parts else []
    lines = [_describe(part) for part in there] or [f"{gpu.uuid}: {card(gpu)}" for gpu in situation.server.gpus]
    return Finding(
        id="device.missing_gpu",
        severity="block",
        title=f"{VISIBLE} names {', '.join(absent)}, which this server does not have, or not once",
        why="CUDA hides it and all that is named after it. There are:\n" + "\n".join(lines),
        origin="asked",
        source="the server report",
        fixes=_take_roomiest(situation),
    )


def chosen_twice(situation: Situation) -> list[Finding]:
    """The file's `env` mapping and accelerate's gpu_ids come after the choice of the launch, and silently win."""
    gpus = situation.plan.launch.gpus
    if gpus is None:
        return []
    launch = ",".join(map(str, gpus))
    label, found = "Leave it to --gpus", []
    visible = file_variables(situation.plan.config).get(VISIBLE)
    if visible is not None and str(visible) != launch:
        found.append(_chosen_twice(launch, VISIBLE, visible, set_variable(situation, label, VISIBLE, None)))
    identifiers = situation.settings.accelerate.get("gpu_ids")
    if identifiers not in (None, "all", launch):
        found.append(_chosen_twice(launch, "gpu_ids", identifiers, (Fix(label=label, changes={"gpu_ids": None}),)))
    return found


def _chosen_twice(launch: str, name: str, value: object, fixes: tuple[Fix, ...]) -> Finding:
    return Finding(
        id=f"device.chosen_twice.{name}",
        severity="block",
        title=f"The GPUs are chosen twice: --gpus {launch}, and {name} is {value}",
        why=f"{name} is set last, in the training process, so that it would train on other GPUs than were judged here.",
        origin="known",
        source="trl: TrlParser.parse_args_and_config (env); accelerate: utils.launch (gpu_ids)",
        fixes=fixes,
    )


def divided(situation: Situation) -> list[Finding]:
    """A number, or no choice at all, takes a part of a divided card that the person did not name."""
    parts, named = _parts(situation.server), _names_of_run(situation)
    seen = [gpu for gpu in situation.gpus if is_divided(gpu)]
    if not seen or len(parts) < 2 or any(not name.isdigit() for name in named):
        return []
    smaller = (seen[0].memory_free or 0) < max(part.memory_free or 0 for part in parts)
    if not smaller and not named:
        return []
    title = "The run would see " + (
        f"{seen[0].name} of GPU {seen[0].index}" if len(seen) == 1 else f"{len(seen)} parts of divided GPUs"
    )
    return [
        Finding(
            id="device.divided",
            severity="warn" if smaller else "note",
            title=title,
            why="Numbers name no part of a card that is divided (MIG); CUDA takes the first. "
            + ("In place of --gpus, " if situation.plan.launch.gpus is not None else "")
            + f"{VISIBLE} names one by its UUID:\n"
            + "\n".join(map(_describe, parts)),
            origin="known",
            source=_MIG,
            fixes=() if situation.plan.launch.gpus is not None else _take_roomiest(situation),
        )
    ]


def parts_together(situation: Situation) -> list[Finding]:
    """NCCL tells processes apart by their card."""
    cards = [gpu.uuid or gpu.index for gpu in situation.gpus if is_divided(gpu)]
    if situation.processes < 2 or len(set(cards)) == len(cards):
        return []
    return [
        Finding(
            id="device.parts_together",
            severity="warn",
            title="Processes of the run would share a divided card",
            why="NCCL takes two parts of a card for the same GPU, and stops, unless it is new enough to know "
            "NCCL_MULTI_RANK_GPU_ENABLE=1; even then parts talk with each other through the host's memory.",
            origin="known",
            source="https://github.com/NVIDIA/nccl/issues/1716",
            fixes=(Fix(label="Train on one part", changes={"num_processes": 1}),),
        )
    ]


def other_order(situation: Situation) -> list[Finding]:
    """CUDA counts GPUs that differ otherwise than this report when it is told to."""
    server = situation.server
    ours = situation.plan.environment.get(ORDER, _BY_BUS)
    theirs = server.environment.get(ORDER, _BY_BUS)
    if len({(gpu.name, gpu.memory_total) for gpu in server.gpus}) < 2 or situation.settings.get("use_cpu"):
        return []
    if ours != _BY_BUS:
        return [_counted_otherwise(situation, ours)]
    by_number = [name for name in _names_of_run(situation) if name.isdigit()]
    if theirs == _BY_BUS or not by_number or _named(situation):
        return []
    lines = "\n".join(f"GPU {gpu.index}: {card(gpu)}" for gpu in situation.gpus)
    return [
        Finding(
            id="device.order",
            severity="warn",
            title=f"{VISIBLE}={','.join(by_number)} means other GPUs in this run than in your shell",
            why=f"Runs count GPUs in PCI bus order, as nvidia-smi does; your shell sets {ORDER}={theirs}. "
            f"This run sees:\n{lines}",
            origin="known",
            source="https://github.com/pytorch/pytorch/issues/86539",
        )
    ]


def _counted_otherwise(situation: Situation, order: str) -> Finding:
    return Finding(
        id="device.order",
        severity="warn",
        title=f"{ORDER}={order} counts the GPUs otherwise than this report",
        why="The cards differ, and CUDA would put the one it takes for the fastest first: a number then means another "
        "card than was judged here.",
        origin="known",
        source="https://github.com/pytorch/pytorch/issues/86539",
        fixes=set_variable(situation, "Count in PCI bus order", ORDER, _BY_BUS),
    )


def _names_of_run(situation: Situation) -> list[str]:
    """Return what the run's GPUs are named by, in the plan or in the person's environment."""
    if situation.plan.launch.gpus is not None:
        return list(map(str, situation.plan.launch.gpus))
    return [name.strip() for name in situation.environment.get(VISIBLE, "").split(",") if name.strip()]


def _parts(server: Server) -> list[Gpu]:
    return [part for gpu in server.gpus for part in parts_of(gpu)]


def _describe(part: Gpu) -> str:
    instance = (part.mig_instances or (None,))[0]
    return f"{instance.uuid if instance else '?'}: {part.name} of GPU {part.index}, {gib(part.memory_free)} free"


def _take_roomiest(situation: Situation) -> tuple[Fix, ...]:
    """Return the fix that names the part with the most free memory, none where that is not known."""
    known = [part for part in _parts(situation.server) if part.memory_free is not None]
    best = max(known, key=lambda part: part.memory_free or 0, default=None)
    name = best.mig_instances[0].uuid if best and best.mig_instances else None
    return set_variable(situation, f"Take {best.name if best else ''}", VISIBLE, name) if name else ()


RULES: tuple[Callable[[Situation], list[Finding]], ...] = (
    *(missing_gpu, chosen_twice, divided, parts_together, other_order),
)
