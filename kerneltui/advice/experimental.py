"""The trainers of `trl.experimental`: what they need beside a model and data, and what they do not take.

Read in TRL 1.16.0 and, but for those that need a server, run on a CPU (tests/e2e/test_experimental.py). From 1.18 on
async_grpo is no longer among them.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any

from kerneltui.advice.about_trainers import ABOUT
from kerneltui.advice.finding import Finding, Fix, Severity
from kerneltui.advice.fixes import install
from kerneltui.advice.situation import Situation
from kerneltui.facts.server import Server

_ASYNCHRONOUS = ("async_grpo", "async_distillation")
_VLLM = "trl[vllm]"
# The one whose constructor takes no adapter.
_WITHOUT_ADAPTERS = ("a2po",)


def may_change(situation: Situation) -> list[Finding]:
    """TRL promises nothing for what is in `trl.experimental`."""
    if not _is_experimental(situation):
        return []
    why = "Its options may change in any release, and the `trl` command has no script for it: kerneltui starts it."
    return [_finding(situation, "unstable", "note", f"{situation.plan.trainer} is experimental in TRL", why)]


def needs_server(situation: Situation) -> list[Finding]:
    """The asynchronous trainers take their completions from a vLLM server of their own."""
    if situation.plan.trainer not in _ASYNCHRONOUS:
        return []
    address = situation.settings.get("vllm_server_base_url")
    why = (
        f"It takes completions from {address} (vllm_server_base_url) and sends it new weights over NCCL. "
        "Start it on other GPUs than those of the training."
    )
    model = situation.settings.get("model_name_or_path") or "MODEL"
    fixes = [Fix(label="Start it", command=f"trl vllm-serve --model {shlex.quote(str(model))}")]
    if "vllm" not in situation.server.packages:
        fixes.insert(0, install(situation.server, "Install vLLM", _VLLM))
    found = [_finding(situation, "server", "warn", f"{situation.plan.trainer} needs a vLLM server", why, *fixes)]
    if teachers := situation.settings.get("teacher_server_urls"):
        why = (
            f"teacher_server_urls is {teachers}; start each with: vllm serve TEACHER --logprobs-mode processed_logprobs"
        )
        found.append(_finding(situation, "teacher_server", "warn", "A vLLM server must hold the teacher", why))
    return found


def needs_gpu(situation: Situation) -> list[Finding]:
    """The asynchronous trainers compute on a GPU only: their attention has no other build."""
    if situation.plan.trainer not in _ASYNCHRONOUS or situation.on_gpu is not False:
        return []
    why = "Its attention is built on kernels-community/flash-attn3, and its weights go to the server over NCCL."
    return [_finding(situation, "gpu", "block", f"{situation.plan.trainer} trains on a GPU only", why)]


def own_attention(situation: Situation) -> list[Finding]:
    """async_grpo hands its own attention to `from_pretrained`; a second one is an error of Python's."""
    if situation.plan.trainer != "async_grpo" or situation.settings.attention is None:
        return []
    kwargs = {k: v for k, v in situation.settings.model_kwargs.items() if k != "attn_implementation"}
    changes: dict[str, Any] = {"attn_implementation": None}
    if "attn_implementation" in situation.settings.model_kwargs:
        changes["model_init_kwargs"] = kwargs or None
    why = "It packs prompts with their completions into trees, with attention of its own on flash-attn3."
    fix = Fix(label="Leave the attention to the trainer", changes=changes)
    return [_finding(situation, "attention", "block", "async_grpo chooses its attention itself", why, fix)]


def refuses_liger(situation: Situation) -> list[Finding]:
    """The asynchronous trainers raise NotImplementedError."""
    if situation.plan.trainer not in _ASYNCHRONOUS or not situation.settings.get("use_liger_kernel"):
        return []
    fix = Fix(label="Train without Liger", changes={"use_liger_kernel": None})
    title = f"{situation.plan.trainer} does not support use_liger_kernel"
    return [_finding(situation, "liger", "block", title, "It raises an error once the model is loaded.", fix)]


def refuses_adapters(situation: Situation) -> list[Finding]:
    """A constructor without `peft_config` trains all weights."""
    if situation.plan.trainer not in _WITHOUT_ADAPTERS or not situation.settings.get("use_peft"):
        return []
    fix = Fix(label="Train all weights", changes={"use_peft": None})
    title = f"{situation.plan.trainer} takes no adapters (use_peft)"
    return [_finding(situation, "adapters", "block", title, "Its class has no place for a LoRA configuration.", fix)]


def vllm_missing(situation: Situation) -> list[Finding]:
    """`use_vllm` fails without the package, once the model is loaded."""
    if not situation.settings.get("use_vllm") or "vllm" in situation.server.packages:
        return []
    fixes = (
        Fix(label="Generate with transformers", changes={"use_vllm": None}),
        install(situation.server, "Install it", _VLLM),
    )
    why = "TRL would say so only after the model is loaded."
    return [_finding(situation, "vllm", "block", "use_vllm is set, and vLLM is not installed", why, *fixes)]


def missing_here(trainer: str, server: Server) -> str | None:
    """Return what a trainer cannot start without and this server lacks, with the command that brings it; else None."""
    needed = ABOUT[trainer].packages if trainer in ABOUT else ()
    absent = {it.partition("[")[2].rstrip("]") or it: it for it in needed}
    found = [
        f"{name} is not installed here: {install(server, 'Install it', requirement).command}"
        for name, requirement in absent.items()
        if name not in server.packages
    ]
    return "; ".join(found) or None


def _is_experimental(situation: Situation) -> bool:
    libraries = situation.server.libraries
    return libraries is not None and situation.plan.trainer in libraries.experimental


def _finding(situation: Situation, name: str, severity: Severity, title: str, why: str, *fixes: Fix) -> Finding:
    return Finding(
        id=f"experimental.{name}",
        severity=severity,
        title=title,
        why=why,
        origin="known",
        source=situation.cite("trl", f"the trainer {situation.plan.trainer}"),
        fixes=fixes,
    )


RULES: tuple[Callable[[Situation], list[Finding]], ...] = (
    *(may_change, needs_server, needs_gpu, own_attention, refuses_liger, refuses_adapters, vllm_missing),
)
