"""All rules together."""

from __future__ import annotations

import msgspec

from kerneltui.advice import (
    adapters,
    attention,
    backward,
    configuration,
    construction,
    data,
    device,
    dtype,
    elsewhere,
    experimental,
    features,
    issues,
    keys,
    launching,
    limits,
    losses,
    names,
    numbering,
    packages,
    packing,
    rewards,
    rows,
    secrets,
    source,
    trainer,
    tried,
    variants,
)
from kerneltui.advice.finding import ORDER, Finding
from kerneltui.advice.health.for_plan import add_health
from kerneltui.advice.memory import room
from kerneltui.advice.situation import Situation

_SUBJECTS = (
    *(elsewhere, packages, numbering, device, dtype, names, source, variants, attention, features, tried, backward),
    *(trainer, adapters, experimental, data, rows, rewards, keys, secrets, packing, room),
    *(configuration, construction, limits, losses, launching, issues),
)

# Rules whose matter TRL may say itself when it builds its configuration: both name these words.
_SAID_BY_TRL = {
    "packing.length_not_enforced": ("padding_free", "max_length"),
    "packing.without_length": ("packing", "max_length"),
    "packing.strategy": ("packing_strategy",),
    "device.no_gpu": ("bf16", "use_cpu"),
    "rewards.weights": ("reward weights",),
    "trainer.missing.teacher_model_name_or_path": ("teacher_model_name_or_path",),
}


# Findings that another revision of the same kernel may mend.
_ABOUT_THE_REVISION = (
    *("variants.none", "variants.metadata", "variants.refused", "variants.architecture", "backward.grouped_heads"),
    *("source.no_revision", "source.no_build", "source.no_metadata"),
)


def wants_alternatives(findings: tuple[Finding, ...]) -> bool:
    """Return whether it is worth asking the Hub about the kernel's other revisions (`Situation.alternatives`)."""
    return any(finding.id in _ABOUT_THE_REVISION for finding in findings)


def judge(situation: Situation) -> tuple[Finding, ...]:
    """Return what the rules say about a situation and its server: blocks, then warnings, then notes."""
    found = [finding for subject in _SUBJECTS for rule in subject.RULES for finding in rule(situation)]
    found = add_health(situation, _without_repeats(found))
    unique = {(finding.id, finding.title): finding for finding in found}
    return tuple(sorted(unique.values(), key=lambda finding: ORDER.index(finding.severity)))


def _without_repeats(found: list[Finding]) -> list[Finding]:
    """Leave out what TRL says itself, but keep the fixes that the rule has for it."""
    said = [finding for finding in found if finding.id.startswith("configuration.")]
    repeats = [finding for finding in found if any(_same(finding, other) for other in said)]
    warned = [finding for finding in said if construction.said_by_rule(finding)]
    kept = [finding for finding in found if finding not in (*repeats, *warned)]
    return [_with_fixes(finding, repeats) if finding in said else finding for finding in kept]


def _same(finding: Finding, said: Finding) -> bool:
    words = _SAID_BY_TRL.get(finding.id)
    return words is not None and all(word in f"{said.title} {said.why}" for word in words)


def _with_fixes(said: Finding, repeats: list[Finding]) -> Finding:
    fixes = said.fixes or tuple(fix for finding in repeats if _same(finding, said) for fix in finding.fixes)
    return msgspec.structs.replace(said, fixes=fixes)
