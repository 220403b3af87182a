"""Rewards for the trainers that generate: functions as they were tried, the reward model, the weights."""

from __future__ import annotations

import re
from collections.abc import Callable

from kerneltui.advice.finding import Finding, Fix, Origin, Severity
from kerneltui.advice.fixes import install
from kerneltui.advice.situation import Situation
from kerneltui.facts.rewards import RewardTrial

# How TRL's own functions say that they need a package.
_ABSENT = re.compile(r"[Ii]nstall the `([\w-]+)` package")


def functions_fail(situation: Situation) -> list[Finding]:
    """A function that cannot be found, or raises, ends the training at the first completions."""
    return [_failure(situation, trial) for trial in _trials(situation) if trial.error or trial.failures]


def functions_silent(situation: Situation) -> list[Finding]:
    """A function that does not answer holds up every step."""
    why = "It was called with three rows. Training calls it at every step, and waits."
    return [
        _finding(situation, f"silent.{trial.name}", "warn", f"{trial.name}: {trial.no_answer}", why)
        for trial in _trials(situation)
        if trial.no_answer
    ]


def scores_alike(situation: Situation) -> list[Finding]:
    """Where all answers to a prompt score alike there is nothing to learn."""
    trials = [it for it in _trials(situation) if it.tries and not it.failures]
    if not trials or any(len(set(trial.scores)) > 1 for trial in trials):
        return []
    found = {trial.name: sorted(set(trial.scores)) for trial in trials}
    told = ", ".join(f"{name} {f'gives {scores[0]:g}' if scores else 'gives none'}" for name, scores in found.items())
    why = f"{told} to what is right and to an empty answer alike. Where all answers score alike nothing is learned."
    return [_finding(situation, "alike", "warn", "No reward tells the tried completions apart", why)]


def tried(situation: Situation) -> list[Finding]:
    """What each function gave, so that a person sees whether that is what they mean."""
    return [
        _finding(situation, f"tried.{trial.name}", "note", f"{trial.name} was tried on completions", _told(trial))
        for trial in _trials(situation)
        if trial.tries and not trial.failures
    ]


def _told(trial: RewardTrial) -> str:
    parts = []
    for found in trial.tries:
        scores = ", ".join("none" if score is None else f"{score:g}" for score in found.scores)
        parts.append(f"{found.kind}: {scores}")
    return f"Made from the first rows of the data, one score a row. {'; '.join(parts)}."


def reward_model_unfit(situation: Situation) -> list[Finding]:
    """A reward model that cannot be read stops the run; one without a head for scores gives random ones."""
    name, model = situation.settings.get("reward_model_name_or_path"), situation.reward_model
    if reason := situation.unknown.get("reward_model"):
        title, _, rest = reason.partition("\n")
        severity: Severity = "warn" if situation.elsewhere else "block"
        return [_finding(situation, "model", severity, f"The reward model: {title}", rest, origin="asked")]
    if model is None or any("SequenceClassification" in it for it in model.architectures):
        return []
    kind = model.architectures[0] if model.architectures else model.model_type
    why = f"{kind} has no head that scores; TRL adds one with random weights, and its scores would be noise."
    return [_finding(situation, "model_head", "block", f"{name} is no reward model", why)]


def weights_mismatch(situation: Situation) -> list[Finding]:
    """`reward_weights` has one weight a reward, the reward model's first (TRL 1.16.0, `GRPOTrainer.__init__`)."""
    get = situation.settings.get
    weights, functions = get("reward_weights"), get("reward_funcs") or []
    count = len(functions) + bool(get("reward_model_name_or_path"))
    if not isinstance(weights, list) or "reward_funcs" not in situation.settings.values or len(weights) == count:
        return []
    fix = Fix(label="Count them alike", changes={"reward_weights": None})
    why = f"There are {count} rewards and {len(weights)} weights; each has one, the reward model's first."
    return [_finding(situation, "weights", "block", "reward_weights does not fit", why, fix, origin="known")]


def _failure(situation: Situation, trial: RewardTrial) -> Finding:
    failed = trial.failures
    always = not failed or len(failed) == len(trial.tries)
    first = failed[0] if failed else None
    severity: Severity
    if first is None:
        why = f"{trial.error}. The path is searched from {situation.plan.cwd}."
        severity = "warn" if situation.elsewhere else "block"
        return _finding(situation, f"import.{trial.name}", severity, f"{trial.name} cannot be imported", why)
    on = "completions" if always else f"the completion {first.completions[0]!r} ({first.kind})"
    place = f", at {first.place}" if first.place else ""
    why = f"{first.error}{place}. It was called as the trainer calls it, on the first rows; any answer may come."
    severity = "block" if always and not situation.elsewhere else "warn"
    absent = _ABSENT.search(str(first.error))
    fixes = [install(situation.server, f"Install {absent[1]}", absent[1].replace("_", "-"))] if absent else []
    return _finding(situation, f"fails.{trial.name}", severity, f"{trial.name} fails on {on}", why, *fixes)


def _trials(situation: Situation) -> tuple[RewardTrial, ...]:
    data = situation.data
    return data.rewards if data and data.trainer == situation.plan.trainer else ()


def _finding(
    situation: Situation, name: str, severity: Severity, title: str, why: str, *fixes: Fix, origin: Origin = "observed"
) -> Finding:
    source = situation.cite_answer("trl", f"the rewards of {situation.plan.trainer}_trainer")
    return Finding(
        id=f"rewards.{name}", severity=severity, title=title, why=why, origin=origin, source=source, fixes=fixes
    )


RULES: tuple[Callable[[Situation], list[Finding]], ...] = (
    *(functions_fail, functions_silent, scores_alike, tried, reward_model_unfit, weights_mismatch),
)
