"""What a given `attn_implementation` really loads, by the tables of the installed transformers."""

from __future__ import annotations

import re
from typing import Literal

from kerneltui.facts.model import ModelFacts
from kerneltui.facts.server import Libraries, Torch
from kerneltui.records import Record

# transformers.integrations.hub_kernels.is_kernel, held against it by a contract test.
_HUB_KERNEL = re.compile(r"^[^/:]+/[^/:]+(?:@[^/:]+)?(?::[^/:]+)?$")


class AttentionChoice(Record):
    """What runs for an `attn_implementation`.

    `kind` is "builtin" (torch or transformers code), "package" (an installed flash-attn), "kernel" (a Hub repository)
    or "unknown" (transformers will refuse it). `revision` is the branch, tag or commit of a kernel; `pinned` tells
    whether the person named it. `reason` says how `asked` became `implementation`, None when it is just that.
    """

    asked: str | None
    implementation: str
    kind: Literal["builtin", "package", "kernel", "unknown"]
    repository: str | None = None
    revision: str | None = None
    pinned: bool = False
    reason: str | None = None

    @property
    def called_as_flash(self) -> bool:
        """Whether transformers calls it as it calls flash attention: the package, or whatever kernel is named."""
        return self.kind in ("kernel", "package")


def device_type(torch: Torch | None) -> str:
    """Return what transformers calls the device that a torch was built for: cuda, rocm, xpu, or cpu.

    Source: transformers 5.22.2 `utils.import_utils.get_device_type`; it does not look for a device that is there.
    """
    if torch is None or torch.cuda:
        return "cuda"
    return "rocm" if torch.hip else "xpu" if torch.xpu else "cpu"


def resolve_attention(
    asked: str | None,
    libraries: Libraries,
    model: ModelFacts | None,
    kernels_usable: bool,
    device: str = "cuda",
) -> AttentionChoice:
    """Return what transformers makes of `asked` for this model class, on a torch that was built for `device`.

    Source: transformers 5.22.2 `PreTrainedModel._check_and_adjust_attn_implementation` and
    `load_and_register_attn_kernel`; all tables come from the installed version through `libraries`.
    """
    if asked is None:
        return _default(model)
    name = asked if asked in libraries.attention_names else asked.removeprefix("paged|")
    reasons = [] if name == asked else ["the paged| prefix is dropped"]
    # transformers judges the name for the model, and what came of it again for the model inside it.
    for _ in range(2):
        name = _replaced(name, libraries, model, kernels_usable, device, reasons)
    reason = "; ".join(dict.fromkeys(reasons)) or None
    if _HUB_KERNEL.search(name):
        return _kernel(asked, name, libraries, reason)
    kind: Literal["builtin", "package", "unknown"] = "builtin" if name in libraries.attention_names else "unknown"
    if name in libraries.attention_fallbacks and name in libraries.flash_packages:
        # A native flash name that has neither its package nor a kernel that stands in for it is refused.
        kind = "package" if libraries.flash_packages[name] else "unknown"
    return AttentionChoice(asked=asked, implementation=name, kind=kind, reason=reason)


def default_branch(repository: str, libraries: Libraries) -> tuple[str, str]:
    """Return the branch that transformers takes of a kernel when no revision is named, and why.

    Source: transformers 5.22.2 `integrations.hub_kernels.get_attn_kernel_version`, with the table of the installed one.
    """
    number = libraries.attention_versions.get(repository)
    if number is not None:
        return f"v{number}", f"the installed transformers names version {number} (FLASH_ATTN_KERNEL_VERSIONS)"
    return "v1", "the installed transformers does not name it in FLASH_ATTN_KERNEL_VERSIONS, and then takes version 1"


def _replaced(
    name: str, libraries: Libraries, model: ModelFacts | None, kernels_usable: bool, device: str, reasons: list[str]
) -> str:
    """Return what stands for `name` after the class's own list and the table of stand-ins; adds to `reasons`."""
    swapped = _compatible(name, libraries, model, device)
    if swapped:
        reasons.append(f"{name} is not among the implementations that this model's class allows")
        name = swapped
    fallback = libraries.attention_fallbacks.get(name)
    usable = kernels_usable and not (model and model.supports_flash is False)
    if fallback and usable and not libraries.flash_packages.get(name):
        reasons.append(f"the package for {name} is not installed, so transformers takes {fallback} from the Hub")
        return fallback
    return name


def _default(model: ModelFacts | None) -> AttentionChoice:
    eager = model is not None and model.supports_sdpa is False
    return AttentionChoice(
        asked=None,
        implementation="eager" if eager else "sdpa",
        kind="builtin",
        reason="none was asked for; " + ("this model's class has no sdpa" if eager else "sdpa is the default"),
    )


def _compatible(name: str, libraries: Libraries, model: ModelFacts | None, device: str) -> str | None:
    """Return the implementation that replaces `name` for a model class with a closed list, or None."""
    allowed = model.compatible_flash if model else None
    if not allowed or "flash" not in name or name in allowed:
        return None
    fitting = [
        candidate
        for candidate in allowed
        if device in libraries.attention_devices.get(libraries.attention_fallbacks.get(candidate, candidate), (device,))
    ]
    return (fitting or list(allowed))[0]


def _kernel(asked: str, name: str, libraries: Libraries, reason: str | None) -> AttentionChoice:
    repository, _, revision = name.partition(":")[0].partition("@")
    repository, revision = repository.strip(), revision.strip()
    branch, _ = default_branch(repository, libraries)
    if not revision:
        default = f"no revision is named, so transformers takes branch {branch}"
        reason = f"{reason}; {default}" if reason else default
    return AttentionChoice(
        asked=asked,
        implementation=name,
        kind="kernel",
        repository=repository,
        revision=revision or branch,
        pinned=bool(revision),
        reason=reason,
    )
