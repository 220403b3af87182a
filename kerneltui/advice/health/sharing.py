"""Who uses the cards, and what of them a process gets: others, exclusive modes, parts, several at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kerneltui.advice.finding import Finding, Fix, Severity
from kerneltui.advice.health.naming import GIB, are, gib, numbered, smi_number
from kerneltui.facts.server import Gpu, Server
from kerneltui.facts.visible import sees_several

# A card is in use where more than this is taken: a desktop, or what an idle CUDA context holds, is less.
_IN_USE = 2 * GIB
_IN_USE_SHARE = 0.05
_IN_USE_PERCENT = 50


def busy(server: Server) -> list[Finding]:
    """Others may compute on the cards. Where all are in use it is a warning, else a note that names the free ones."""
    used = [gpu for gpu in server.gpus if is_busy(gpu)]
    free = [gpu for gpu in server.gpus if gpu not in used]
    return [in_use(used, free, "note" if free else "warn")] if used else []


def in_use(used: Sequence[Gpu], free: Sequence[Gpu], severity: Severity) -> Finding:
    """Return the finding that cards are in use, and by whom; `free` are those that could be taken instead."""
    users = ", ".join(sorted({it.user for gpu in used for it in gpu.processes or () if it.user}))
    lines = [_use(gpu) for gpu in used] + ([f"Free: {numbered(free)}."] if free else [])
    return Finding(
        id="gpu.busy",
        severity=severity,
        title=f"{numbered(used)} {are(used)} in use" + (f" by {users}" if users else ""),
        why="\n".join(lines),
        origin="observed",
        source="NVML: memory, use and processes",
    )


def is_busy(gpu: Gpu) -> bool:
    """Whether so much of a card is taken that it can hardly be for nothing; False where that is not told."""
    held = sum(process.memory or 0 for process in gpu.processes or ())
    if not gpu.memory_unified:  # there the memory in use is the whole system's
        held = max(held, gpu.memory_used or 0)
    return held > max(_IN_USE, _IN_USE_SHARE * (gpu.memory_total or 0)) or (gpu.utilization or 0) >= _IN_USE_PERCENT


def _use(gpu: Gpu) -> str:
    holders = [
        f"{process.user or 'someone'}'s {process.command or f'process {process.pid}'} {gib(process.memory)}"
        for process in (gpu.processes or ())[:3]
    ]
    percent = "" if gpu.utilization is None else f", {gpu.utilization} %"
    who = "; ".join(holders) or "by processes that are not seen from here"
    return f"{numbered([gpu])}: {gib(gpu.memory_used)} of {gib(gpu.memory_total)}{percent}: {who}"


def compute_mode(server: Server) -> list[Finding]:
    """A card may let one process alone compute, or none."""
    taken = [gpu for gpu in server.gpus if gpu.compute_mode == "prohibited" or _is_taken(gpu)]
    if not taken:
        return []
    severity: Severity = "block" if len(taken) == len(server.gpus) else "warn"
    return [
        Finding(
            id="gpu.exclusive",
            severity=severity,
            title=f"{numbered(taken)} let{'s' if len(taken) == 1 else ''} no other process compute",
            why="The compute mode is " + " and ".join(sorted({str(gpu.compute_mode) for gpu in taken})) + ": a second "
            "process gets an error that says that all devices are busy or unavailable.",
            origin="observed",
            source="https://docs.nvidia.com/deploy/nvml-api/ (nvmlComputeMode_t)",
            fixes=(
                Fix(
                    label="Let several processes compute",
                    command=f"sudo nvidia-smi -i {smi_number(taken[0])} -c DEFAULT",
                ),
            ),
        )
    ]


def _is_taken(gpu: Gpu) -> bool:
    return (gpu.compute_mode or "").startswith("exclusive") and bool(gpu.processes)


def parts(server: Server) -> list[Finding]:
    """Of a card that is divided a process uses one part; without parts it uses none."""
    empty = [gpu for gpu in server.gpus if gpu.mig and gpu.mig_instances == ()]
    divided = [gpu for gpu in server.gpus if gpu.mig_instances]
    source = "https://docs.nvidia.com/datacenter/tesla/mig-user-guide/"
    found = []
    if empty:
        severity: Severity = "block" if len(empty) == len(server.gpus) else "warn"
        found.append(
            Finding(
                id="gpu.mig_empty",
                severity=severity,
                title=f"{numbered(empty)} {are(empty)} set to be divided (MIG), and has no parts",
                why="CUDA sees no device there until parts are made, or MIG is turned off.",
                origin="observed",
                source=source,
                fixes=(Fix(label="Turn MIG off", command=f"sudo nvidia-smi -i {smi_number(empty[0])} -mig 0"),),
            )
        )
    if divided:
        names = [it.uuid for gpu in divided for it in gpu.mig_instances or () if it.uuid]
        found.append(
            Finding(
                id="gpu.mig",
                severity="note",
                title=f"{numbered(divided)} {are(divided)} divided into parts (MIG)",
                why=(
                    "With this driver a process sees one compute instance of each GPU instance. NCCL takes parts of a "
                    "card for the same GPU, so that they do not train together."
                    if sees_several(server.driver)
                    else "A process uses one part, the first that CUDA_VISIBLE_DEVICES names, and parts cannot train "
                    "together."
                )
                + (f" To choose: CUDA_VISIBLE_DEVICES={names[0]}" if names else ""),
                origin="known",
                source=source,
            )
        )
    return found


def several_visible(server: Server) -> list[Finding]:
    """A Trainer that sees several GPUs in one process takes DataParallel, which TRL refuses."""
    count = server.torch.device_count if server.torch else 0
    if count < 2 or not server.torch or not (server.torch.cuda or server.torch.hip):
        return []
    return [
        Finding(
            id="gpu.several",
            severity="note",
            title=f"A process sees {count} GPUs here",
            why="A script that is started with python alone would train with DataParallel, which TRL refuses. "
            "`kerneltui launch` starts one process a GPU through accelerate, or takes one GPU with --gpus.",
            origin="known",
            source="trl 1.16: several GPUs visible to one process",
        )
    ]


RULES: tuple[Callable[[Server], list[Finding]], ...] = (busy, compute_mode, parts, several_visible)
