"""What public sources tell of kernels, as data: the last resort where nobody can be asked.

The sources name a commit or a date. Of branches that were published later nothing is claimed here.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from kerneltui.advice.catalogue import COMMUNITY as COMMUNITY
from kerneltui.advice.catalogue import catalogue
from kerneltui.facts.kernel_records import KernelBuild

SOURCES = "https://github.com/huggingface/kernels-community/tree/40d4194f48b6775c4be4776ed08035fabb0e758f"
FLASH_ATTENTION_2 = f"{COMMUNITY}/flash-attn2"
FLASH_ATTENTION_4 = f"{COMMUNITY}/flash-attn4"
GROUPED_BACKWARD_ISSUE = "https://github.com/huggingface/kernels-community/issues/1085"


class Unfit(NamedTuple):
    """Why a kernel cannot be the attention of a training run, and where that is written."""

    why: str
    source: str


# Old repositories of the type "model"; kernels reads the type "kernel" alone since 0.14 (huggingface/trl issue 4514).
RENAMED = {
    f"{COMMUNITY}/flash-attn": FLASH_ATTENTION_2,
    f"{COMMUNITY}/sage_attention": f"{COMMUNITY}/sage-attention",
}

# Commits of flash-attn2 v3 from before the fix, and the one with the fix in its build for CUDA 13.0 alone.
_V3_BROKEN = ("239bb21bd566f598d7e2228eab9788b0a9239b2d", "a394b68d")
_V3_FIXED = "0510be1e482269a46fadf30069aca3ede496ff9b"
# Torch versions and CUDA builds that v2 was published for (issue 1085; kernels.lock of 2026-07-15).
_V2_BUILDS = {
    "2.11": ("12.6", "12.8", "13.0"),
    "2.12": ("12.6", "13.0", "13.2"),
    "2.13": ("12.6", "13.0", "13.2"),
}

Backward = Literal["good", "broken", "unproven"]


def unfit_for_training(repository: str) -> Unfit | None:
    """Return why a kernel cannot be trained with, None where nothing of that kind is known of it."""
    kernel = catalogue().get(repository)
    return Unfit(kernel.unfit, kernel.source) if kernel and kernel.unfit else None


def forward_only() -> tuple[str, ...]:
    """Return the kernels that were made for attention and cannot be trained with."""
    made_for_it = [kernel for kernel in catalogue().values() if kernel.role == "attention" and kernel.unfit]
    return tuple(kernel.id for kernel in made_for_it if kernel.backward in ("no", "partly"))


def has_build_of_v2(torch: str, cuda: str) -> bool:
    """Return whether flash-attn2 v2 was published for these versions ("2.11", "12.8")."""
    return cuda in _V2_BUILDS.get(torch, ())


def major_version(revision: str, build: KernelBuild | None) -> int | None:
    """Return the version of a kernel: what its metadata says, else the number of its branch."""
    if build and build.metadata and build.metadata.version is not None:
        return build.metadata.version
    branch = re.fullmatch(r"v(\d+)", revision)
    return int(branch[1]) if branch else None


def grouped_backward(revision: str, build: KernelBuild | None, cuda: str | None) -> Backward | None:
    """Return what is known of flash-attn2's backward where several query heads share a key/value head.

    `cuda` ("12.8") is torch's and decides where no build is known. None: nothing is known. The stable-ABI builds of v3
    failed; of v3's builds only that for CUDA 13.0 was seen to be rebuilt, by 2026-09-01. v4 is nowhere spoken of.
    """
    major = major_version(revision, build)
    if major is None or major < 3:
        return None if major is None else "good"
    toolkit = _toolkit(build, cuda)
    if toolkit is None:
        return None
    if major > 3:
        return "unproven"
    commit = build.commit if build else ""
    if toolkit == "128" or commit.startswith(_V3_BROKEN):
        return "broken"
    # A branch only moves on, so that its head has the fix; another commit may be from before it.
    moved_on = commit == _V3_FIXED or revision == "v3"
    return "good" if toolkit == "130" and moved_on else "unproven"


def _toolkit(build: KernelBuild | None, cuda: str | None) -> str | None:
    """Return the CUDA version that the binary was built for, without a point; None where it is for another backend."""
    if build is None or build.variant is None:
        return cuda.replace(".", "") if cuda else None
    found = re.search(r"-cu(\d+)", build.variant)
    return found[1] if found else None
