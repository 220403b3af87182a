"""Rewards as findings: functions as they were tried, the reward model, the weights."""

from __future__ import annotations

from typing import Any

import pytest

from kerneltui.advice.finding import Finding
from kerneltui.facts.dataset import Column, DatasetFacts
from kerneltui.facts.model import ModelFacts
from kerneltui.facts.rewards import RewardTrial, RewardTry
from tests.advice.situations import changes, findings

_VALUES: dict[str, Any] = {"reward_funcs": ["f"], "reward_weights": None, "reward_model_name_or_path": None}


def _try(kind: str, *scores: float | None, **more: Any) -> RewardTry:
    return RewardTry(kind=kind, completions=("5",) * max(1, len(scores)), scores=scores, **more)


def _findings(*trials: RewardTrial, values: dict[str, Any] | None = None, **facts: Any) -> dict[str, Finding]:
    data = DatasetFacts(
        name="rows", split="train", columns=(Column(name="prompt", type="text"),), trainer="grpo", rewards=trials
    )
    found = findings("grpo", data=data, given={**_VALUES, **(values or {})}, **facts)
    return {name: finding for name, finding in found.items() if name.startswith("rewards.")}


def test_what_a_function_gave_is_shown() -> None:
    found = _findings(RewardTrial(name="f", tries=(_try("right", 1.0, 0.5), _try("nothing", 0.0, None))))
    assert list(found) == ["rewards.tried.f"]
    assert "right: 1, 0.5; nothing: 0, none." in found["rewards.tried.f"].why


@pytest.mark.parametrize(
    ("trial", "name", "severity", "words"),
    [
        (RewardTrial(name="f", error="ModuleNotFoundError: No"), "import.f", "block", "searched from"),
        (RewardTrial(name="f", tries=(_try("a", error="E: x", place="m.py:3"),)), "fails.f", "block", "at m.py:3"),
        (RewardTrial(name="f", tries=(_try("a", 1.0), _try("b", error="E"))), "fails.f", "warn", "any answer"),
        (RewardTrial(name="f", no_answer="it gave no answer within 20 s"), "silent.f", "warn", "every step"),
        (RewardTrial(name="f", tries=(_try("a", 0.5), _try("b", 0.5))), "alike", "warn", "nothing is learned"),
        (RewardTrial(name="f", tries=(_try("a", None), _try("b", None))), "alike", "warn", "gives none"),
    ],
)
def test_what_is_wrong_with_a_function(trial: RewardTrial, name: str, severity: str, words: str) -> None:
    found = _findings(trial)[f"rewards.{name}"]
    assert found.severity == severity
    assert words in found.why


def test_one_function_that_tells_answers_apart_is_enough() -> None:
    alike = RewardTrial(name="f", tries=(_try("a", 0.0), _try("b", 0.0)))
    apart = RewardTrial(name="g", tries=(_try("a", 0.0), _try("b", 1.0)))
    assert "rewards.alike" in _findings(alike)
    assert "rewards.alike" not in _findings(alike, apart)


def test_a_package_that_a_function_of_trl_needs_comes_with_its_command() -> None:
    error = "ImportError: Please install the `math_verify` package to use accuracy_reward"
    found = _findings(RewardTrial(name="accuracy_reward", tries=(_try("a", error=error),)))
    (fix,) = found["rewards.fails.accuracy_reward"].fixes
    assert "math-verify" in str(fix.command)


def test_each_reward_has_a_weight() -> None:
    found = _findings(values={"reward_weights": [1.0, 0.5]})["rewards.weights"]
    assert "1 rewards and 2 weights" in found.why and changes(found) == [{"reward_weights": None}]
    both = {"reward_weights": [1.0, 0.5], "reward_model_name_or_path": "a/b"}
    assert "rewards.weights" not in _findings(values=both)


def test_a_reward_model_needs_a_head_for_scores() -> None:
    named = {"reward_model_name_or_path": "a/b"}
    scorer = ModelFacts(model_type="qwen3", architectures=("Qwen3ForSequenceClassification",))
    talker = ModelFacts(model_type="qwen3", architectures=("Qwen3ForCausalLM",))
    assert "rewards.model_head" not in _findings(values=named, reward_model=scorer)
    assert "would be noise" in _findings(values=named, reward_model=talker)["rewards.model_head"].why
    found = _findings(values=named, unknown={"reward_model": "a/b is gated\nAsk."})["rewards.model"]
    assert (found.title, found.severity) == ("The reward model: a/b is gated", "block")
