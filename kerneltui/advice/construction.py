"""What the trainer's own constructor said of the plan's options, with the changes that mend it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from kerneltui.advice.finding import Finding, Fix
from kerneltui.advice.fixes import install
from kerneltui.advice.situation import Situation
from kerneltui.plan.settings import ConfigError
from kerneltui.text import nearest, plain

# The packages of trackers whose name is not that of the package.
_PACKAGES = {"azure_ml": "azureml-mlflow", "comet_ml": "comet-ml", "flyte": "flytekit"}
# Warnings about the attention are judged for the plan's own, not for that of the tiny model.
_ABOUT_THE_MODEL = ("attention implementation", "tie_word_embeddings")
# What rules say in more words, by the option that the trainer's warning names.
_SAID_BY_RULES = ("use_liger_kernel", "padding_free", "packing_strategy")


def refused(situation: Situation) -> list[Finding]:
    """What the constructor raises, after the model was loaded."""
    error = situation.construction.refused if situation.construction else None
    if error is None:
        return []
    title, rest = _sentences(error.message or error.type)
    late = f"{situation.plan.trainer} raises this ({error.type}) when it is built, after the model was loaded."
    return [
        Finding(
            id=f"configuration.{error.field or error.type}",
            severity="block",
            title=title,
            why=f"{rest}\n{late}".strip(),
            origin="asked",
            source=situation.cite("trl", f"the constructor of {situation.plan.trainer}"),
            fixes=fixes_for(situation, error),
        )
    ]


def warned(situation: Situation) -> list[Finding]:
    """What the constructor warns of and names an option that was given."""
    said = situation.construction.said if situation.construction else ()
    return [_warning(situation, text) for text in said if not any(word in text for word in _ABOUT_THE_MODEL)]


def not_asked(situation: Situation) -> list[Finding]:
    """What kept the trainer from being asked."""
    reason = situation.unknown.get("construction")
    if reason is None or situation.construction is not None:
        return []
    return [
        Finding(
            id="configuration.not_asked",
            severity="note",
            title=f"The trainer {situation.plan.trainer} was not asked about its options",
            why=f"{reason}\nWhat is known of the options by the version of TRL was looked at instead.",
            origin="asked",
            source=situation.cite("trl", f"the constructor of {situation.plan.trainer}"),
        )
    ]


def trackers_missing(situation: Situation) -> list[Finding]:
    """A tracker without its package stops the trainer when it is built."""
    made = situation.construction
    return [
        _tracker(
            situation,
            f"report_to names {name}, which is not installed",
            install(situation.server, "Install it", _PACKAGES.get(name, name)),
            _without(situation, name),
        )
        for name in (made.missing if made else ())
    ]


def trackers_unknown(situation: Situation) -> list[Finding]:
    """A name that transformers does not know as a tracker stops the trainer when it is built."""
    made = situation.construction
    found = []
    for name in made.unknown if made else ():
        close = nearest(name, made.known if made else ())
        fixes = (Fix(label=f"Report to {close}", changes={"report_to": close}),) if close else ()
        found.append(_tracker(situation, f"transformers knows no tracker {name!r}", *fixes, _without(situation, name)))
    return found


def fixes_for(situation: Situation, error: ConfigError) -> tuple[Fix, ...]:
    """Return what mends an error of TRL's, the best first; else that the named option goes back to its default."""
    for pattern, make in _FIXES:
        if found := re.search(pattern, error.message, re.DOTALL):
            return make(situation, found)
    given = error.field in situation.settings.given
    return (_remove(str(error.field)),) if given and error.field else ()


def _warning(situation: Situation, text: str) -> Finding:
    text = re.sub(r"^\[RANK \d+\] ", "", plain(text))
    named = [word for word in re.findall(r"\w+", text) if word in situation.settings.given]
    title, rest = _sentences(text)
    field = named[0] if named else "warning"
    return Finding(
        id=f"configuration.warned.{field}",
        severity="note",
        title=title,
        why=rest or f"{situation.plan.trainer} warns of this when it is built.",
        origin="asked",
        source=situation.cite("trl", f"the constructor of {situation.plan.trainer}"),
    )


def said_by_rule(finding: Finding) -> bool:
    """Return whether a rule of ours says more of the same warning."""
    return finding.id.removeprefix("configuration.warned.") in _SAID_BY_RULES


def _sentences(message: str) -> tuple[str, str]:
    """Return the first sentence of a message, and the rest."""
    text = " ".join(plain(message).split())
    found = re.match(r"(.{20,}?[.:;])\s+(?=[A-Z`'])(.*)", text)
    first, rest = (found[1], found[2]) if found else (text, "")
    return first.rstrip(".:;"), rest


def _tracker(situation: Situation, title: str, *fixes: Fix) -> Finding:
    return Finding(
        id="configuration.report_to",
        severity="block",
        title=title,
        why="The trainer looks for it when it is built, after the model was loaded.",
        origin="asked",
        source=situation.cite("transformers", "integrations.get_reporting_integration_callbacks"),
        fixes=fixes,
    )


def _without(situation: Situation, name: str) -> Fix:
    named = situation.settings.get("report_to")
    left = [other for other in named if other != name] if isinstance(named, list) else []
    return Fix(label=f"Do not report to {name}", changes={"report_to": left or "none"})


def _set(name: str, value: Any) -> Fix:
    return Fix(label=f"Set {name} to {value}", changes={name: value})


def _remove(*names: str) -> Fix:
    return Fix(label=f"Leave out {' and '.join(names)}", changes=dict.fromkeys(names))


def without_head(situation: Situation) -> tuple[Fix, ...]:
    """Return the fix that trains no adapter on the output layer."""
    named = situation.settings.get("lora_target_modules") or []
    left = [name for name in ([named] if isinstance(named, str) else named) if name != "lm_head"]
    return (Fix(label="Leave lm_head without an adapter", changes={"lora_target_modules": left or None}),)


def _without_fused(situation: Situation, found: re.Match[str]) -> tuple[Fix, ...]:
    config = situation.settings.get("liger_kernel_config")
    left = {k: v for k, v in config.items() if k != "fused_linear_cross_entropy"} if isinstance(config, dict) else {}
    return (Fix(label="Leave the loss to the trainer", changes={"liger_kernel_config": left or None}),)


def _loss_name(situation: Situation, found: re.Match[str]) -> tuple[Fix, ...]:
    names = re.findall(r"'(\w+)'", found[2])
    close = nearest(found[1], names)
    return tuple(_set("loss_type", name) for name in dict.fromkeys([close, *names][:3]) if name)


def _static(*fixes: Fix) -> Callable[[Situation, re.Match[str]], tuple[Fix, ...]]:
    return lambda situation, found: fixes


_NO_LIGER = _remove("use_liger_kernel")
# By the words of the error, in the releases 1.10 to 1.16 of TRL.
_FIXES: tuple[tuple[str, Callable[[Situation, re.Match[str]], tuple[Fix, ...]]], ...] = (
    (r"fused_linear_cross_entropy", _without_fused),
    (r"lm_head.*(adapter|PEFT)|PEFT.*(lm_head|output embedding)", lambda situation, found: without_head(situation)),
    (r"train_sampling_strategy='sequential'", _static(_set("train_sampling_strategy", "sequential"))),
    (
        r"batch size must be > 1",
        _static(_set("per_device_train_batch_size", 2), _set("loss_type", "apo_zero_unpaired")),
    ),
    (r"sync_ref_model=True.*beta", _static(_remove("sync_ref_model"), _set("beta", 0.04))),
    (
        r"sync_ref_model=True.*precompute_ref_log_probs",
        _static(_remove("precompute_ref_log_probs"), _remove("sync_ref_model")),
    ),
    (r"sync_ref_model=True.*PEFT", _static(_remove("sync_ref_model"), _remove("use_peft"))),
    (r"'exo_pair' loss", _static(_set("label_smoothing", 0.001))),
    (r"iger.*precompute_ref_log_probs", _static(_NO_LIGER, _remove("precompute_ref_log_probs"))),
    (r"iger.*(f_divergence_type|reverse_kl)", _static(_NO_LIGER, _remove("f_divergence_type"))),
    (r"iger.*chunked_nll|chunked_nll.*iger", _static(_NO_LIGER, _set("loss_type", "nll"))),
    (r"iger", _static(_NO_LIGER)),
    (r"f_divergence_type=.*only supported", _static(_remove("f_divergence_type"), _remove("loss_type"))),
    (r"Invalid `loss_type` (\S+) passed\.(.*)", _loss_name),
    (r"[Rr]eward weights", _static(_remove("reward_weights"))),
    (r"WPO-style weighting", _static(_remove("use_weighting"))),
    (
        r"'selective': True.*requires `gradient_checkpointing",
        _static(_set("gradient_checkpointing", True), _remove("gradient_checkpointing_kwargs")),
    ),
    (r"'selective': True", _static(_remove("gradient_checkpointing_kwargs"))),
)

RULES: tuple[Callable[[Situation], list[Finding]], ...] = (
    *(refused, warned, not_asked, trackers_missing, trackers_unknown),
)
