import math
from typing import Any

import pytest

from kerneltui.bench.summary import summarise
from tests.bench.made import EAGER, KERNEL, SAMPLE, SDPA, by_point, comparison, failed, measured


def test_the_fastest_is_first_at_each_length() -> None:
    found = by_point(
        measured(SDPA, 64, 10, 11, 12),
        measured(KERNEL, 64, 12, 13, 14),
        measured(SDPA, 128, 40, 40, 40),
        measured(KERNEL, 128, 20, 20, 20),
    )
    summary = summarise(comparison(), found)
    assert summary.first == {64: SDPA, 128: KERNEL}
    assert [cell.contender for cell in summary.ranking(128)] == [KERNEL, SDPA]


def test_a_cell_has_the_median_of_all_rounds_and_its_spread() -> None:
    found = by_point(measured(SDPA, 64, 10, 10, 10, 10), measured(SDPA, 64, 20, 20, 20, 20, round=2))
    cell = summarise(comparison(SDPA, rounds=2), found).cell(SDPA, 64)
    assert cell and cell.median == 15
    assert cell.spread == pytest.approx(5 / 15)
    assert cell.tokens == pytest.approx(64 / 0.015)


@pytest.mark.parametrize(
    "values",
    [
        {"sample": (1.0, 2.0, 0.5, 3.0)},
        {"sample": (math.nan, -2.0, 0.5, 3.0)},
        {"grad_norm": 1.5},
        {"loss": None},
    ],
    ids=["other hidden states", "not finite", "other gradients", "a loss that is not finite"],
)
def test_who_computes_something_else_is_not_ranked(values: dict[str, Any]) -> None:
    found = by_point(measured(SDPA, 64, 10, 10), measured(KERNEL, 64, 1, 1, **values))
    summary = summarise(comparison(), found)
    cell = summary.cell(KERNEL, 64)
    assert cell and not cell.ranked and cell.reason and cell.median == 1
    assert summary.first == {64: SDPA}


def test_rounding_keeps_nobody_from_the_ranking() -> None:
    near = tuple(value * 1.02 for value in SAMPLE)
    summary = summarise(comparison(), by_point(measured(SDPA, 64, 10, 10), measured(KERNEL, 64, 1, 1, sample=near)))
    assert summary.first == {64: KERNEL}


def test_eager_is_the_reference_where_sdpa_is_not_compared() -> None:
    found = by_point(measured(EAGER, 64, 9, 9), measured(KERNEL, 64, 1, 1, sample=(5.0, 5.0, 5.0, 5.0)))
    cell = summarise(comparison(EAGER, KERNEL), found).cell(KERNEL, 64)
    assert cell and not cell.ranked


def test_without_a_reference_nothing_is_said_of_the_difference() -> None:
    cell = summarise(comparison(KERNEL), by_point(measured(KERNEL, 64, 1, 1))).cell(KERNEL, 64)
    assert cell and cell.ranked and cell.difference is None


@pytest.mark.parametrize(
    ("ended", "ending", "reason"),
    [
        ("out_of_memory", None, "out of memory"),
        ("crashed", "signal 11", "signal 11"),
        ("hung", None, "hung"),
    ],
)
def test_an_end_without_a_figure_is_a_result(ended: str, ending: str | None, reason: str) -> None:
    summary = summarise(comparison(), by_point(measured(SDPA, 64, 10, 10), failed(KERNEL, 64, ended, ending)))
    cell = summary.cell(KERNEL, 64)
    assert cell and cell.median is None and cell.reason == reason
    assert summary.first == {64: SDPA}


def test_utilization_is_a_share_of_a_matrix_product() -> None:
    one = measured(SDPA, 64, 1000, 1000, flops=5e14, product_flops=1e15)
    cell = summarise(comparison(SDPA), by_point(one)).cell(SDPA, 64)
    assert cell and cell.utilization == pytest.approx(0.5)
