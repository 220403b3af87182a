"""Whether the cards are well: lost, too hot, slowed down, with errors in their memory."""

from __future__ import annotations

from collections.abc import Callable

from kerneltui.advice.finding import Finding, Fix, Severity
from kerneltui.advice.health.naming import are, numbered, smi_number
from kerneltui.facts.server import Gpu, Server

# Where the card does not tell its own limit: the degrees Celsius at which the usual ones lower their clocks.
_HOT = 90
_MEMORY_ERRORS = "https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/"


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
            title=f"{numbered(found)} {are(found)} lost: no answer comes from there",
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


def hot(server: Server) -> list[Finding]:
    """A card that is too hot lowers its clocks."""
    found = [gpu for gpu in server.gpus if _is_hot(gpu)]
    if not found:
        return []
    return [
        Finding(
            id="gpu.hot",
            severity="warn",
            title=f"{numbered(found)} {are(found)} too hot and slowed down",
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
            title=f"{numbered(found)} {are(found)} slowed down: {', '.join(words)}",
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


def _reset(gpu: Gpu) -> Fix:
    label = "Reset the GPU when nothing runs on it"
    return Fix(label=label, command=f"sudo nvidia-smi --gpu-reset -i {smi_number(gpu)}")


RULES: tuple[Callable[[Server], list[Finding]], ...] = (lost, memory_errors, remapping, hot, slowed)
