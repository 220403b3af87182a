"""What training has really loaded, held against what was promised before launch."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from kerneltui.advice.assessment import Attention
from kerneltui.runs.alert import Alert
from kerneltui.runs.directory import RunRecord

_COMMIT = re.compile(r"[0-9a-f]{40}")
_LOOK = "If it matters, stop the run, and look in its log for what transformers said when it loaded the model."


def alerts_of(record: RunRecord, begin: dict[str, Any]) -> list[Alert]:
    """Return where a `train_begin` event differs from `run.json`; what one of them cannot tell is no difference."""
    return differences(record.will_run.attention, begin, guessed=record.server.libraries is None)


def differences(promised: Attention, begin: dict[str, Any], *, guessed: bool = False) -> list[Alert]:
    """Return where a `train_begin` event differs from what was promised.

    `guessed` tells that it was promised without the libraries' own tables: then it repeats what was asked, and what a
    native name becomes is not known.
    """
    used = begin.get("attention")
    if not isinstance(used, str) or (guessed and "/" not in promised.implementation):
        return []
    if not _same_name(promised.implementation, used):
        return [_other_attention(promised, used)]
    kernels = [kernel for kernel in begin.get("kernels") or () if isinstance(kernel, dict)]
    return list(_kernel_alerts(promised, kernels))


def _other_attention(promised: Attention, used: str) -> Alert:
    return Alert(
        id="other_attention",
        # Nobody asked for the default; something that was asked for by name is another matter.
        severity="warn" if promised.asked is None else "block",
        text=f"{promised.implementation} was promised, but the model uses {used}",
        next_step=_LOOK,
    )


def _kernel_alerts(promised: Attention, kernels: list[dict[str, Any]]) -> Iterator[Alert]:
    """Compare repository, commit and variant; a local kernel has neither repository nor commit of its own."""
    if not promised.repository or not _is_commit(promised.commit):
        return
    named = [kernel for kernel in kernels if _lower(kernel.get("repository")) == promised.repository.lower()]
    if not named:
        yield from _not_from_there(promised, promised.repository, kernels)
        return
    kernel = named[0]
    promised_pin = f"{promised.repository}@{promised.commit}"
    if _is_commit(kernel.get("commit")) and kernel["commit"] != promised.commit:
        yield Alert(
            id="other_commit",
            severity="warn",
            text=f"{promised.repository} was promised at commit {str(promised.commit)[:8]}, "
            f"{kernel['commit'][:8]} is loaded: the branch has moved",
            next_step=f"To keep the one that was checked, name the commit: attn_implementation {promised_pin}",
        )
    elif isinstance(kernel.get("variant"), str) and promised.variant not in (None, kernel["variant"]):
        yield Alert(
            id="other_variant",
            severity="warn",
            text=f"{promised.repository} was promised as {promised.variant}, {kernel['variant']} is loaded",
            next_step="Run `kerneltui kernels` for that repository: it says which build fits here, and why.",
        )


def _not_from_there(promised: Attention, repository: str, kernels: list[dict[str, Any]]) -> Iterator[Alert]:
    """Say where the kernel came from instead, if that is known."""
    tail = _plain_name(repository.rpartition("/")[2])
    unnamed = [kernel for kernel in kernels if not kernel.get("repository")]
    local = next((kernel for kernel in unnamed if _plain_name(str(kernel.get("name"))) == tail), None)
    if local and local.get("commit") == "local":
        yield Alert(
            id="local_kernel",
            severity="warn",
            text=f"{repository} was promised at commit {str(promised.commit)[:8]}, "
            f"a copy in {local.get('path')} is loaded",
            next_step="Unset LOCAL_KERNELS to train on the Hub's build.",
        )
    elif kernels and not unnamed:
        loaded = ", ".join(str(kernel["repository"]) for kernel in kernels)
        yield Alert(
            id="other_repository",
            severity="block",
            text=f"{repository} was promised, loaded is {loaded}",
            next_step=_LOOK,
        )


def _same_name(promised: str, used: str) -> bool:
    """Whether two names mean the same implementation; a revision counts only where both name one."""
    (name, revision), (other, another) = _split(promised), _split(used)
    return name == other and (not revision or not another or revision == another)


def _split(name: str) -> tuple[str, str]:
    repository, _, revision = name.removeprefix("paged|").partition(":")[0].partition("@")
    return repository.strip().lower(), revision.strip()


def _is_commit(value: object) -> bool:
    return isinstance(value, str) and _COMMIT.fullmatch(value) is not None


def _lower(value: object) -> str:
    return value.lower() if isinstance(value, str) else ""


def _plain_name(name: str) -> str:
    return name.lower().replace("_", "-")
