"""What of a server's health matters to one plan: that of the cards which it uses, and of what it needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from kerneltui.advice.finding import Finding
from kerneltui.advice.health import judge_server
from kerneltui.advice.health.sharing import in_use, is_busy
from kerneltui.advice.situation import Situation

# Rules of plans that tell the effect of what is wrong with the server: then its finding only adds what mends it.
_NO_GPU = ("device.no_gpu", "device.driver", "device.missing_gpu")
_SAID = {
    "torch.cpu_build": _NO_GPU,
    "torch.hidden": _NO_GPU,
    "torch.no_device": _NO_GPU,
    "gpu.mig_empty": _NO_GPU,
    "packages.broken.liger-kernel": ("packages.liger",),
    "packages.broken.kernels": ("packages.kernels", "packages.flash_attention"),
}
# Subjects that do not matter where a plan trains on the CPU.
_OF_GPUS = ("gpu.", "driver.", "torch.", "device.", "triton.")


def add_health(situation: Situation, said: Sequence[Finding]) -> list[Finding]:
    """Return the findings of a plan, with the blocks and warnings about its server that they do not say already."""
    found = list(said)
    for finding in _of_cards(situation):
        at = next((at for at, other in enumerate(found) if other.id in (finding.id, *_said_by(finding.id))), None)
        if at is None:
            found.append(finding)
        else:
            found[at] = _with_cause(found[at], finding)
    return found


def _with_cause(said: Finding, cause: Finding) -> Finding:
    """Return a plan's finding with what the server's adds: the cause, where that is another, and what mends it."""
    fixes = (*said.fixes, *(fix for fix in cause.fixes if fix not in said.fixes))
    if cause.title == said.title:
        return msgspec.structs.replace(said, fixes=fixes)
    why = f"{cause.why}\n{said.title}. {said.why}"
    return msgspec.structs.replace(said, title=cause.title, why=why, fixes=fixes)


def _said_by(name: str) -> tuple[str, ...]:
    return _NO_GPU if name.startswith("driver.") else _SAID.get(name, ())


def _of_cards(situation: Situation) -> list[Finding]:
    """Return the findings about the server as if it had the plan's cards alone, and of what the plan needs."""
    server = situation.server
    cards = server.gpus if situation.on_gpu is False else situation.gpus
    found = judge_server(msgspec.structs.replace(server, gpus=cards))
    return [_busy(situation) if it.id == "gpu.busy" else it for it in found if _matters(it, situation)]


def _busy(situation: Situation) -> Finding:
    """Return the warning that the plan's own cards are in use, with those of the server that are free."""
    free = [gpu for gpu in situation.server.gpus if not is_busy(gpu)]
    return in_use([gpu for gpu in situation.gpus if is_busy(gpu)], free, "warn")


def _matters(finding: Finding, situation: Situation) -> bool:
    if situation.settings.get("use_cpu") and finding.id.startswith(_OF_GPUS):
        return False
    if finding.severity == "block":
        return True
    wanted = next((needs for name, needs in _NEEDED_BY.items() if finding.id.startswith(name)), None)
    if wanted is not None:
        return wanted(situation)
    return finding.severity != "note" or finding.id == "gpu.busy"


def _never(situation: Situation) -> bool:
    return False


def _uses_triton(situation: Situation) -> bool:
    settings = situation.settings
    return bool(settings.get("use_liger_kernel") or settings.get("torch_compile"))


# When what only warns matters to a plan; what is not named here always does. Rules of plans look at whether there is
# a GPU, at the pair of transformers and kernels, and at the Hub themselves.
_NEEDED_BY: dict[str, Callable[[Situation], bool]] = {
    "gpu.none": _never,
    "packages.kernels": _never,
    "hub.": _never,
    "triton.": _uses_triton,
    "disk.shared_memory": lambda situation: (
        situation.processes > 1 or bool(situation.settings.get("dataloader_num_workers"))
    ),
    "packages.range.peft": lambda situation: bool(situation.settings.get("use_peft")),
    "packages.broken.peft": lambda situation: bool(situation.settings.get("use_peft")),
    "packages.broken.liger-kernel": lambda situation: bool(situation.settings.get("use_liger_kernel")),
    "packages.broken.kernels": lambda situation: situation.attention.kind == "kernel",
    "packages.broken.flash-attn": lambda situation: situation.attention.kind == "package",
    "packages.broken.": _never,
}
