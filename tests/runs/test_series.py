"""Series of points: attempts, gaps, trends, and columns that invent nothing."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerneltui.runs.series import Points, Series


def points_of(*values: float, first: int = 1) -> Points:
    series = Series()
    for step, value in enumerate(values, first):
        series.add(step, value, attempt=1)
    return series.snapshot()


def test_a_later_attempt_takes_the_place_of_what_it_does_again() -> None:
    series = Series()
    for step in range(1, 11):
        series.add(step, float(step), attempt=1)
    before = series.snapshot()
    series.add(6, 60.0, attempt=2)
    series.add(11, -1.0, attempt=1)  # a late line of the first attempt
    assert [step for step, _ in series.snapshot()] == [1, 2, 3, 4, 5, 6]
    assert series.snapshot().last == (6, 60.0)
    assert before.last == (10, 10.0)
    assert before != series.snapshot()


def test_a_snapshot_stays_as_it_is_and_equals_another_of_the_same_points() -> None:
    series = Series()
    series.add(1, 1.0, attempt=1)
    first = series.snapshot()
    assert first == series.snapshot()
    series.add(2, math.nan, attempt=1)
    assert len(first) == 1
    assert first.odd_count == 0
    assert first != series.snapshot()
    assert series.snapshot().odd_count == 1
    assert Points() == Points()


@pytest.mark.parametrize(
    ("values", "trend"),
    [
        ([1.0, 1.0, 1.0], None),
        ([5.0, 4.0, 3.0, 2.0, 1.0, 0.5], "falling"),
        ([1.0, 2.0, 3.0, 4.0, 5.0], "rising"),
        ([1.0, 1.2, 1.0, 1.2, 1.0, 1.2], "steady"),
        ([0.01] * 30, "steady"),
        ([1e300, -1e300] * 5, "steady"),
        ([math.nan] * 9, None),
    ],
)
def test_the_trend_is_told_only_where_it_is_more_than_scatter(values: list[float], trend: str | None) -> None:
    assert points_of(*values).trend() == trend


def test_a_column_keeps_its_least_and_greatest_value() -> None:
    values = [1.0] * 1000
    values[500], values[501] = 9.0, -9.0
    columns = points_of(*values).columns(10, 1, 1000)
    assert [column.high for column in columns if column] == [1, 1, 1, 1, 1, 9, 1, 1, 1, 1]
    assert min(column.low for column in columns if column) == -9


def test_a_value_that_is_no_number_is_a_gap() -> None:
    columns = points_of(1.0, math.nan, 3.0, 4.0).columns(4, 1, 4)
    assert columns[1] is None
    assert columns[2] is not None
    assert columns[2].starts_broken
    assert columns[3] is not None
    assert not columns[3].starts_broken
    assert points_of(1.0, math.inf, math.nan).span() == (1.0, 1.0)
    assert points_of(math.nan).span() is None


@given(
    st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=60),
    st.integers(1, 40),
    st.integers(0, 100),
)
def test_columns_hold_every_finite_value_and_no_other(values: list[float], count: int, more: int) -> None:
    points = points_of(*values)
    columns = points.columns(count, 1, len(values) + more)
    finite = {value for value in values if math.isfinite(value)}
    found = {value for column in columns if column for value in column[:4]}
    assert len(columns) == count
    assert found <= finite
    if finite:
        assert (min(found), max(found)) == (min(finite), max(finite))
    points.trend()
