"""The cards themselves: who uses them, whether they are well, and what they cannot compute."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kerneltui.advice.finding import Finding, Fix, Severity
from kerneltui.advice.health.naming import GIB, card, gib, numbered
from kerneltui.facts.server import AMPERE, Gpu, Server
from kerneltui.facts.visible import sees_several

# A card is in use where more than this is taken: a desktop, or what an idle CUDA context holds, is less.
_IN_USE = 2 * GIB
_IN_USE_SHARE = 0.05
_IN_USE_PERCENT = 50
# Where the card does not tell its own limit: the degrees Celsius at which the usual ones lower their clocks.
_HOT = 90
_MEMORY_ERRORS = "https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/"
_RESET = Fix(label="Reset the GPU when nothing runs on it", command="sudo nvidia-smi --gpu-reset -i {}")


def lost(server: Server) -> list[Finding]:
    """A card may have fallen off the bus: the driver lists it and cannot talk with it."""
    found = [gpu for gpu in server.gpus if any("gpu is lost" in it.lower() for it in gpu.unavailable.values())]
    if not found:
        return []
    severity: Severity = "block" if len(found) == len(server.gpus) else "warn"
    return [
        Finding(
            id="gpu.lost",
            severity=severity,
            title=f"{numbered(found)} {_are(found)} lost: no answer comes from there",
            why="A card that has fallen off the bus is there again after a reset or a restart, if it is not broken. "
            "The kernel's log has its Xid. As long as it is lost, CUDA may start on no card of this machine.",
            origin="observed",
            source="https://docs.nvidia.com/deploy/xid-errors/",
            fixes=(
                Fix(label="Read the kernel's log", command="sudo dmesg | grep -iE 'nvrm|xid'"),
                _reset(found[0]),
            ),
        )
    ]


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
        title=f"{numbered(used)} {_are(used)} in use" + (f" by {users}" if users else ""),
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


def hot(server: Server) -> list[Finding]:
    """A card that is too hot lowers its clocks."""
    found = [gpu for gpu in server.gpus if _is_hot(gpu)]
    if not found:
        return []
    return [
        Finding(
            id="gpu.hot",
            severity="warn",
            title=f"{numbered(found)} {_are(found)} too hot and slowed down",
            why="\n".join(_heat(gpu) for gpu in found) + "\nAir flow, fans and the room are to be looked at.",
            origin="observed",
            source="NVML: temperature and clock event reasons",
            fixes=(Fix(label="See what slows it", command="nvidia-smi -q -d TEMPERATURE,PERFORMANCE"),),
        )
    ]


def _is_hot(gpu: Gpu) -> bool:
    if any("thermal" in reason for reason in gpu.throttle or ()):
        return True
    return gpu.temperature is not None and gpu.temperature >= (gpu.temperature_limit or _HOT)


def _heat(gpu: Gpu) -> str:
    limit = f", slowed from {gpu.temperature_limit} °C on" if gpu.temperature_limit else ""
    return f"{numbered([gpu])}: {'–' if gpu.temperature is None else gpu.temperature} °C{limit}"


def slowed(server: Server) -> list[Finding]:
    """Power supply or hardware may slow a card down; its power limit, reached under load, is no fault."""
    reasons = ("hardware slowdown", "power brake", "reliability limit")
    found = [gpu for gpu in server.gpus if not _is_hot(gpu) and set(gpu.throttle or ()) & set(reasons)]
    if not found:
        return []
    words = sorted({reason for gpu in found for reason in gpu.throttle or () if reason in reasons})
    return [
        Finding(
            id="gpu.slowed",
            severity="warn",
            title=f"{numbered(found)} {_are(found)} slowed down: {', '.join(words)}",
            why="Mostly the power supply gives too little, or the card protects itself. Training is slower than it has "
            "to be; who runs the server has to look at it.",
            origin="observed",
            source="https://docs.nvidia.com/deploy/nvml-api/ (nvmlClocksEventReasons)",
            fixes=(Fix(label="See what slows it", command="nvidia-smi -q -d PERFORMANCE,POWER"),),
        )
    ]


def memory_errors(server: Server) -> list[Finding]:
    """Errors that ECC cannot correct end the program that meets them."""
    found = [gpu for gpu in server.gpus if gpu.ecc_errors]
    if not found:
        return []
    counts = ", ".join(f"{numbered([gpu])}: {gpu.ecc_errors}" for gpu in found)
    return [
        Finding(
            id="gpu.ecc",
            severity="warn",
            title=f"{numbered(found)} had memory errors that could not be corrected",
            why=f"{counts}, since the driver was loaded. Each ends the program that meets it. After a reset the card "
            "replaces bad rows of its memory; where the errors come back it has to be replaced.",
            origin="observed",
            source=_MEMORY_ERRORS,
            fixes=(_reset(found[0]),),
        )
    ]


def remapping(server: Server) -> list[Finding]:
    """Bad rows of memory are replaced at the next reset, as long as there are spare ones."""
    failed = [gpu for gpu in server.gpus if gpu.remap_failed]
    pending = [gpu for gpu in server.gpus if gpu.remap_pending and not gpu.remap_failed]
    found = []
    if failed:
        found.append(
            Finding(
                id="gpu.remap_failed",
                severity="warn",
                title=f"{numbered(failed)} could not replace bad rows of its memory",
                why="Errors there will end programs again and again. For NVIDIA this is a case for replacing the card.",
                origin="observed",
                source=_MEMORY_ERRORS,
                fixes=(Fix(label="See the rows", command="nvidia-smi -q -d ROW_REMAPPER"),),
            )
        )
    if pending:
        found.append(
            Finding(
                id="gpu.remap_pending",
                severity="note",
                title=f"{numbered(pending)} will replace bad rows of its memory at the next reset",
                why="Until then programs run on it as always.",
                origin="observed",
                source=_MEMORY_ERRORS,
                fixes=(_reset(pending[0]),),
            )
        )
    return found


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
                    command=f"sudo nvidia-smi -i {_number(taken[0])} -c DEFAULT",
                ),
            ),
        )
    ]


def _is_taken(gpu: Gpu) -> bool:
    return (gpu.compute_mode or "").startswith("exclusive") and bool(gpu.processes)


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
                title=f"{numbered(empty)} {_are(empty)} set to be divided (MIG), and has no parts",
                why="CUDA sees no device there until parts are made, or MIG is turned off.",
                origin="observed",
                source=source,
                fixes=(Fix(label="Turn MIG off", command=f"sudo nvidia-smi -i {_number(empty[0])} -mig 0"),),
            )
        )
    if divided:
        names = [it.uuid for gpu in divided for it in gpu.mig_instances or () if it.uuid]
        found.append(
            Finding(
                id="gpu.mig",
                severity="note",
                title=f"{numbered(divided)} {_are(divided)} divided into parts (MIG)",
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


def _are(gpus: Sequence[Gpu]) -> str:
    return "is" if len(gpus) == 1 else "are"


def _number(gpu: Gpu) -> str:
    """Return what `nvidia-smi -i` takes."""
    return str(gpu.uuid or (gpu.index if gpu.nvml_index is None else gpu.nvml_index))


def _reset(gpu: Gpu) -> Fix:
    return Fix(label=_RESET.label, command=str(_RESET.command).format(_number(gpu)))


RULES: tuple[Callable[[Server], list[Finding]], ...] = (
    *(lost, busy, compute_mode, memory_errors, remapping, hot, slowed, parts),
    *(before_ampere, no_bfloat16, several_visible, numbering, unified),
)
