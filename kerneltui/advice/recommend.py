"""The answer that each step of the wizard opens on, with its reason in one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kerneltui import demo
from kerneltui.advice import known
from kerneltui.advice.fit import TRAINERS, fits
from kerneltui.advice.health.torch_build import built_for
from kerneltui.advice.memory import GIB
from kerneltui.advice.options import recommend_options
from kerneltui.advice.recommendation import Recommendation
from kerneltui.advice.situation import Situation
from kerneltui.advice.verdict import Verdict
from kerneltui.facts.dataset import DatasetFacts
from kerneltui.facts.server import Gpu, Server
from kerneltui.plan.sources import data_values

__all__ = [
    "Recommendation",
    "recommend_attention",
    "recommend_gpus",
    "recommend_model_and_data",
    "recommend_options",
    "recommend_revision",
    "recommend_trainer",
]

# Less than this is not room to train in: CUDA's context alone takes half a gigabyte.
_ROOM = 2 * GIB

# The trainer that a format was made for.
_TRAINERS = {
    "language modeling": "sft",
    "prompt-completion": "sft",
    "tokenized": "sft",
    "preference": "dpo",
    "unpaired preference": "kto",
    "prompt-only": "grpo",
}
_WHY_TRAINER = {
    "sft": "SFT learns to write such texts",
    "dpo": "DPO learns to prefer the chosen answer, without a reward model",
    "kto": "KTO learns from single answers marked good or bad",
    "grpo": "GRPO generates answers to the prompts and learns from their rewards",
}

# In the order of how well they are known to train; flash-attn4 is young and is not recommended.
_KERNELS = tuple(f"{known.COMMUNITY}/{name}" for name in ("flash-attn2", "flash-attn3", "vllm-flash-attn3"))
_BUILTIN = ("sdpa", "flex_attention", "eager")


def recommend_gpus(server: Server) -> Recommendation:
    """Return the GPU with the most free memory that torch can use, or the CPU where there is none."""
    usable = [gpu for gpu in server.gpus if gpu.torch_index is not None and _has_code(server, gpu)]
    roomy = [gpu for gpu in usable if gpu.memory_free is None or gpu.memory_free >= _ROOM]
    if not roomy:
        return Recommendation(values={"use_cpu": True}, why=_why_cpu(server, usable))
    best = max(roomy, key=lambda gpu: (gpu.memory_free or gpu.memory_total or 0, gpu.capability or (0, 0)))
    number = "" if best.index is None else f" {best.index}"
    free = "" if best.memory_free is None else f": {best.memory_free / GIB:.0f} GiB are free"
    most = ", the most of all" if free and len(usable) > 1 else ""
    return Recommendation(
        gpus=None if best.index is None else (best.index,),
        remove=("use_cpu",),
        why=f"GPU{number} ({best.name or 'unnamed'}){free}{most}.",
    )


def recommend_model_and_data(
    models: Sequence[str], data: Sequence[str], cwd: Path, *, trainer: str = "sft"
) -> Recommendation:
    """Return the model and the data that were used last, each list newest first, or the embedded ones."""
    values: dict[str, Any] = {"model_name_or_path": models[0] if models else str(demo.model_path())}
    source = data[0] if data else str(demo.data_path(trainer))
    named, remove = data_values(source, cwd)
    why = {
        (True, True): "The model and the data that you used last.",
        (True, False): "The model that you used last, on a few rows that come with kerneltui.",
        (False, True): "The data that you used last, with the tiny model that comes with kerneltui.",
        (False, False): "A tiny model and a few rows come with kerneltui: a whole run in a minute, without a network.",
    }
    return Recommendation(values={**values, **named}, remove=remove, why=why[bool(models), bool(data)])


def recommend_trainer(dataset: DatasetFacts | None, trainers: Sequence[str] = TRAINERS) -> Recommendation:
    """Return the trainer that the format of the data was made for, else the first that can read it, else SFT.

    `trainers` are those of the installed TRL.
    """
    chosen = _TRAINERS.get(dataset.format or "") if dataset else None
    if dataset and chosen and chosen in trainers and fits(dataset, chosen).ok:
        return Recommendation(trainer=chosen, why=f"The data is {dataset.format}: {_WHY_TRAINER[chosen]}.")
    reading = [name for name in trainers if fits(dataset, name).ok]
    if reading:
        return Recommendation(trainer=reading[0], why=f"It can read this data: {fits(dataset, reading[0]).reason}.")
    default = "sft" if "sft" in trainers or not trainers else trainers[0]
    unread = "The data was not read" if dataset is None else "No trainer can read this data as it is"
    return Recommendation(trainer=default, why=f"{unread}; most runs begin with SFT.")


def recommend_attention(situation: Situation, verdicts: Mapping[str, Verdict]) -> Recommendation:
    """Return the attention to train with, of the implementations that were judged for this plan.

    A kernel of the Hub without a warning comes first, then an installed flash-attn, then what torch has itself.
    """
    ready = {name: verdict for name, verdict in verdicts.items() if verdict.kind == "ready"}
    if demo.ATTENTION in ready:
        return Recommendation(
            values={"attn_implementation": demo.ATTENTION},
            environment={
                "LOCAL_KERNELS": demo.local_kernels(situation.environment.get("LOCAL_KERNELS")),
                "HF_HUB_OFFLINE": "1",
            },
            why="It comes with kerneltui and its model: a real kernel on the CPU and the GPU, without a network.",
        )
    if situation.on_gpu is False:
        return _builtin(verdicts, "On the CPU torch's own attention is the one that trains.")
    kernels = [name for name in (*_KERNELS, *sorted(ready)) if name in ready and _recommendable(name)]
    if kernels:
        prove = " Prove it before a long run." if "backward.unproven" in ready[kernels[0]].ids else ""
        return Recommendation(
            values={"attn_implementation": kernels[0]},
            why=f"{kernels[0]} has a build for this server, can train this model, and nothing warns of it.{prove}",
        )
    packages = [name for name, verdict in ready.items() if _is_package(name) and verdict.severity is None]
    if packages:
        return Recommendation(
            values={"attn_implementation": packages[0]}, why="Its own package is installed here, and fits this model."
        )
    return _builtin(verdicts, _why_builtin(verdicts))


def recommend_revision(situation: Situation, verdicts: Mapping[str, Verdict]) -> Recommendation:
    """Return the revision of the plan's kernel to train with, pinned by its name.

    That is the branch that transformers takes by itself, unless it has a block; then the newest without. `verdicts` are
    those of its revisions, newest first. Where none fits, `values` is empty.
    """
    repository, libraries = str(situation.attention.repository), situation.server.libraries
    default = f"v{libraries.attention_versions.get(repository, 1) if libraries else 1}"
    if situation.model and repository in (situation.model.compatible_flash or ()):
        why = f"This model's class takes the bare name only, which is branch {default}."
        return Recommendation(values={"attn_implementation": repository}, why=why)
    reason = verdicts[default].reason if default in verdicts else "it is not there"
    for kind, words in (("ready", "no warning"), ("care", "no block")):
        fitting = [name for name, verdict in verdicts.items() if verdict.kind == kind]
        if default in fitting:
            care = "" if kind == "ready" else f", though: {reason}"
            return _pin(repository, default, f"The branch that transformers takes by itself{care}")
        if fitting:
            return _pin(repository, fitting[0], f"The newest with {words}. Not {default}: {reason}")
    return Recommendation(why=f"No revision of {repository} fits this server and model: take another attention.")


def _has_code(server: Server, gpu: Gpu) -> bool:
    archs = server.torch.arch_list if server.torch and server.torch.cuda else ()
    return not archs or gpu.capability is None or built_for(archs, gpu.capability)


def _why_cpu(server: Server, usable: Sequence[Gpu]) -> str:
    if usable:
        free = max(gpu.memory_free or 0 for gpu in usable) / GIB
        return f"The CPU: every GPU is full (the emptiest has {free:.1f} GiB free)."
    if any(gpu.torch_index is not None for gpu in server.gpus):
        return "The CPU: this torch has no code for the GPU that is here."
    if server.gpus:
        return "The CPU: torch sees no GPU, although the driver lists one."
    return "The CPU: this server has no GPU. That is enough for a trial of a small model."


def _recommendable(name: str) -> bool:
    """Whether a kernel of the Hub may be recommended, and not only be chosen."""
    return "/" in name and name != known.FLASH_ATTENTION_4 and known.unfit_for_training(name) is None


def _is_package(name: str) -> bool:
    return name.startswith("flash_attention_")


def _builtin(verdicts: Mapping[str, Verdict], why: str) -> Recommendation:
    kinds = {name: verdicts[name].kind for name in _BUILTIN if name in verdicts}
    by_kind = [name for wanted in ("ready", "care") for name, kind in kinds.items() if kind == wanted]
    chosen = by_kind[0] if by_kind else "sdpa"
    return Recommendation(values={"attn_implementation": chosen}, why=why)


def _why_builtin(verdicts: Mapping[str, Verdict]) -> str:
    kernels = [verdict for name, verdict in verdicts.items() if "/" in name and known.unfit_for_training(name) is None]
    if any(verdict.kind == "unknown" for verdict in kernels):
        return "It always works here; the Hub's kernels are not all judged yet."
    first = next((verdict.reason for verdict in kernels if verdict.kind == "refused"), "")
    because = f" ({first})" if first else ""
    return f"No kernel of the Hub fits this server and model without a warning{because}; torch's own is a good choice."


def _pin(repository: str, revision: str, why: str) -> Recommendation:
    return Recommendation(
        values={"attn_implementation": f"{repository}@{revision}"}, why=why if why.endswith(".") else f"{why}."
    )
