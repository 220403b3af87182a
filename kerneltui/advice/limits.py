"""Options that trainers refuse, by the release of TRL: for servers whose own TRL cannot be asked.

Where the trainer's constructor was asked (`kerneltui.advice.construction`) these are silent. Each was seen in
TRL 1.10.0 and 1.16.0 (tests/advice/answers); the releases between were read (1.11, 1.12, 1.13, 1.14.2, 1.15).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from packaging.version import Version

from kerneltui.advice.construction import fixes_for
from kerneltui.advice.finding import Finding, Fix
from kerneltui.advice.situation import Situation
from kerneltui.plan.settings import ConfigError

DATE = "2026-12-01"
"""The day on which the ranges were looked at."""

Get = Callable[..., Any]


class Limit(NamedTuple):
    """One refusal: in `trainers`, from TRL `since` on and before `until`, where `applies` to the options.

    `words` are those of TRL's error as far as the fixes go by them.
    """

    id: str
    trainers: tuple[str, ...]
    applies: Callable[[Get], bool]
    title: str
    words: str
    since: str = "1.10"
    until: str | None = None
    source: str | None = None


_ISSUE_HEAD = "https://github.com/huggingface/trl/issues/6159"
_FIVE = ("sft", "dpo", "kto", "grpo", "rloo")
_REFERENCE = ("dpo", "kto")
_NO_DIVERGENCE = ("nca_pair", "bco_pair", "sppo_hard", "aot", "aot_unpaired", "apo_zero", "apo_down")


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _on_head(get: Get) -> bool:
    return bool(get("use_peft")) and "lm_head" in _listed(get("lora_target_modules"))


def _liger(get: Get) -> bool:
    return bool(get("use_liger_kernel"))


def _fused(get: Get) -> bool:
    config = get("liger_kernel_config")
    return _liger(get) and isinstance(config, dict) and bool(config.get("fused_linear_cross_entropy"))


def _needs_pairs(get: Get) -> bool:
    return bool(get("loss_type", "kto") != "apo_zero_unpaired")


def _divergence(get: Get) -> bool:
    return get("f_divergence_type", "reverse_kl") not in ("reverse_kl", None)


LIMITS = (
    Limit(
        "limits.lm_head", ("sft", "distillation"), _on_head, "An adapter on lm_head would not be trained",
        "lm_head PEFT adapter", source=_ISSUE_HEAD,
    ),
    Limit(
        "limits.lm_head", ("dpo", "kto", "grpo", "rloo"), _on_head, "An adapter on lm_head would not be trained",
        "lm_head PEFT adapter", since="1.15", source=_ISSUE_HEAD,
    ),
    Limit(
        "limits.liger_head", ("dpo", "kto", "grpo"), lambda get: _liger(get) and _on_head(get),
        "Liger's loss does not see an adapter on lm_head", "lm_head PEFT adapter", until="1.14", source=_ISSUE_HEAD,
    ),
    Limit(
        "limits.kto_batch", ("kto",), lambda get: _needs_pairs(get) and get("per_device_train_batch_size") == 1,
        "KTO needs more than one sample a batch for its KL term", "batch size must be > 1",
        source="https://github.com/huggingface/trl/issues/2554",
    ),
    Limit(
        "limits.kto_sampling", ("kto",),
        lambda get: _needs_pairs(get) and get("train_sampling_strategy", "sequential") != "sequential",
        "KTO pairs neighbouring samples, so it needs them in order", "train_sampling_strategy='sequential'",
    ),
    Limit(
        "limits.sync_reference_adapter", (*_REFERENCE, "grpo", "rloo"),
        lambda get: bool(get("sync_ref_model") and get("use_peft")),
        "With an adapter there is no reference model to synchronize", "sync_ref_model=True PEFT",
    ),
    Limit(
        "limits.sync_reference_precomputed", _REFERENCE,
        lambda get: bool(get("sync_ref_model") and get("precompute_ref_log_probs")),
        "Precomputed reference values stay as they are, so nothing can be synchronized",
        "sync_ref_model=True precompute_ref_log_probs",
    ),
    Limit(
        "limits.sync_reference_unused", ("grpo",), lambda get: bool(get("sync_ref_model")) and not get("beta"),
        "GRPO has no reference model with beta 0", "sync_ref_model=True beta",
    ),
    Limit(
        "limits.exo_pair", ("dpo",),
        lambda get: "exo_pair" in _listed(get("loss_type")) and not get("label_smoothing"),
        "The loss exo_pair needs label_smoothing above 0", "'exo_pair' loss",
    ),
    Limit(
        "limits.divergence", ("dpo",),
        lambda get: _divergence(get) and bool(set(_listed(get("loss_type"))) & set(_NO_DIVERGENCE)),
        "This loss has the reverse KL divergence only", "f_divergence_type= only supported",
    ),
    Limit(
        "limits.weighting", ("dpo",),
        lambda get: bool(get("use_weighting")) and bool({"aot", "aot_unpaired"} & set(_listed(get("loss_type")))),
        "use_weighting does not go with losses that sort samples", "WPO-style weighting",
    ),
    Limit(
        "limits.sft_loss", ("sft",), lambda get: get("loss_type", "nll") not in ("nll", "dft", "chunked_nll", None),
        "SFT has the losses nll and dft", "Invalid `loss_type` x passed. 'nll' 'dft'",
    ),
    Limit(
        "limits.liger_divergence", ("dpo",), lambda get: _liger(get) and _divergence(get),
        "Liger's DPO loss has the reverse KL divergence only", "Liger reverse_kl", until="1.14",
        source="https://github.com/huggingface/trl/issues/7063",
    ),
    Limit(
        "limits.liger_precompute", _REFERENCE, lambda get: _liger(get) and bool(get("precompute_ref_log_probs")),
        "Liger's loss computes the reference itself, so it cannot be precomputed", "Liger precompute_ref_log_probs",
        until="1.14", source="https://github.com/huggingface/trl/issues/6270",
    ),
    Limit(
        "limits.liger_chunked", ("sft",), lambda get: _liger(get) and get("loss_type") == "chunked_nll",
        "chunked_nll and Liger both replace the loss", "Liger chunked_nll", until="1.15",
        source="https://github.com/huggingface/trl/issues/4570",
    ),
    Limit(
        "limits.liger_fused", _FIVE, _fused, "The trainer fuses the loss itself, so Liger must not",
        "fused_linear_cross_entropy", since="1.15",
    ),
    Limit(
        "limits.liger_uld", ("gold",), lambda get: _liger(get) and bool(get("use_uld_loss")),
        "Liger's loss is not that of use_uld_loss", "Liger", until="1.14",
    ),
)  # fmt: skip


def refused_by_release(situation: Situation) -> list[Finding]:
    """What this release of TRL is known to refuse, where its trainer was not asked."""
    version = situation.version("trl")
    if version is None or situation.construction is not None:
        return []
    return [_finding(situation, limit) for limit in LIMITS if holds(limit, situation, version)]


def holds(limit: Limit, situation: Situation, version: Version) -> bool:
    """Return whether a limit is one of this release, this trainer and these options."""
    known = version.release >= Version(limit.since).release
    ended = limit.until is not None and version.release >= Version(limit.until).release
    return known and not ended and situation.plan.trainer in limit.trainers and limit.applies(situation.settings.get)


def _finding(situation: Situation, limit: Limit) -> Finding:
    last = f", before {limit.until}" if limit.until else ""
    fixes: tuple[Fix, ...] = fixes_for(situation, ConfigError(type="ValueError", message=limit.words))
    return Finding(
        id=limit.id,
        severity="block",
        title=limit.title,
        why=f"{situation.plan.trainer} of TRL {limit.since} and newer{last} refuses this when it is built. "
        "The TRL of that server was not asked.",
        origin="known",
        source=limit.source or situation.cite("trl", f"the constructor of {situation.plan.trainer} (seen {DATE})"),
        fixes=fixes,
    )


RULES: tuple[Callable[[Situation], list[Finding]], ...] = (refused_by_release,)
