"""The trainers in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from kerneltui.advice.about_trainers import ABOUT, good_curve, good_curves
from kerneltui.advice.experimental import missing_here
from kerneltui.advice.fit import TRAINERS
from kerneltui.facts.server import Server
from kerneltui.records import read_record
from kerneltui.worker.experimental import experimental_trainers

# What fits into the lower border of a chart of the least width.
_ROOM = 44


def test_every_trainer_of_the_installed_trl_is_told() -> None:
    assert set(ABOUT) == {*TRAINERS, *experimental_trainers()}
    for name, about in ABOUT.items():
        assert about.does and about.curves, name
        assert all(len(good) <= _ROOM for good in about.curves.values()), name


@pytest.mark.parametrize(
    ("trainer", "metric", "good"),
    [
        ("dpo", "loss", "falls from 0.69 (ln 2)"),
        ("dpo", "eval_loss", "falls from 0.69 (ln 2)"),
        ("grpo", "loss", "stays near 0; watch the reward instead"),
        ("grpo", "grad_norm", "steady, without growing spikes"),
        ("a_new_one", "loss", None),
        (None, "something", None),
    ],
)
def test_a_good_curve_depends_on_the_trainer(trainer: str | None, metric: str, good: str | None) -> None:
    assert good_curve(trainer, metric) == good


def test_the_curves_stand_in_one_line() -> None:
    assert good_curves("reward", 2) == "accuracy rises from 0.5 to 0.7 or more; margin rises above 0"
    assert good_curves("a_new_one") == ""


def test_what_a_trainer_lacks_here_comes_with_how_to_get_it() -> None:
    server = read_record(Path(__file__).parents[1] / "servers" / "h200.json", Server)
    missing = missing_here("async_grpo", server)
    assert missing and missing.startswith("vllm is not installed here: ") and "trl[vllm]" in missing
    assert missing_here("sft", server) is None
