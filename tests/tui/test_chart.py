"""Charts: round scales, curves with gaps, words; and log lines in pieces."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from kerneltui.runs.series import Points, Series
from kerneltui.text import cut_middle, duration
from kerneltui.tui.widgets.chart import draw_chart, read_out
from kerneltui.tui.widgets.charts import in_order
from kerneltui.tui.widgets.log_view import wrap
from kerneltui.tui.widgets.plot import round_up, scale_for
from kerneltui.tui.widgets.sparkline import sparkline
from kerneltui.tui.widgets.words import pad, short, thousands

NUMBERS = st.floats(allow_nan=True, allow_infinity=True)


def points_of(*values: float) -> Points:
    series = Series()
    for step, value in enumerate(values, 1):
        series.add(step, value, attempt=1)
    return series.snapshot()


def picture(points: Points, evaluation: Points, end: int, width: int, height: int) -> list[str]:
    return ["".join(character for character, _ in row) for row in draw_chart(points, evaluation, end, width, height)]


@pytest.mark.parametrize(
    ("low", "high", "parts", "labels"),
    [
        (0.08, 6.25, 2, ["0.0", "3.5", "7.0"]),
        (0.0, 0.97, 4, ["0.00", "0.25", "0.50", "0.75", "1.00"]),
        (1e-7, 2e-5, 2, ["0", "1e-5", "2e-5"]),
        (12345, 99999, 4, ["0", "2.5e4", "5.0e4", "7.5e4", "1.0e5"]),
        (-3, 5, 2, ["-3", "1", "5"]),
        (0, 0, 2, ["-1", "0", "1"]),
    ],
)
def test_a_scale_has_round_marks(low: float, high: float, parts: int, labels: list[str]) -> None:
    scale = scale_for(low, high, parts)
    assert [scale.label(mark) for mark in scale.marks] == labels


@given(st.floats(-1e308, 1e308), st.floats(-1e308, 1e308), st.sampled_from([2, 4]))
def test_a_scale_holds_what_it_is_for(one: float, other: float, parts: int) -> None:
    scale = scale_for(min(one, other), max(one, other), parts)
    assert len(scale.marks) == parts + 1
    assert 0 <= scale.place(one, 12) < 12
    assert all(scale.label(mark) for mark in scale.marks)


def test_a_curve_goes_where_its_values_go() -> None:
    rows = picture(points_of(4, 3, 2, 1), Points(), 4, 12, 4)
    # A falling line from the upper left to the lower right.
    assert [next(place for place, character in enumerate(row) if character > "⠀") for row in rows] == [4, 6, 8, 10]


def test_a_gap_is_left_over_what_is_no_number() -> None:
    row = picture(points_of(1, 1, 1, math.nan, 1, 1, 1), Points(), 7, 18, 1)[0]
    curve = row[row.index("⠤") :]
    assert "┈" in curve.strip("┈ ")


def test_an_evaluation_is_a_mark_over_the_curve() -> None:
    rows = picture(points_of(1, 2, 3, 4), points_of(2.5), 4, 20, 6)
    assert sum(row.count("◆") for row in rows) == 1
    assert rows[-1].split() == ["step", "1", "4"]


@given(st.lists(NUMBERS, max_size=30), st.lists(NUMBERS, max_size=3), st.integers(0, 40), st.integers(0, 14))
def test_a_picture_has_its_size_whatever_the_values(
    values: list[float], evaluations: list[float], width: int, height: int
) -> None:
    points, evaluation = points_of(*values), points_of(*evaluations)
    end = max(len(values), len(evaluations), 1)
    rows = draw_chart(points, evaluation, end, width, height)
    assert len(rows) == height
    assert {len(row) for row in rows} <= {width}
    read_out("loss", points, evaluation)


def test_a_chart_is_read_out_in_words() -> None:
    assert read_out("loss", Points()) == "loss: nothing logged yet"
    assert read_out("loss", points_of(3, 2.5, 2, 1.5, 1, math.nan), points_of(2.0)) == (
        "loss: last NaN at step 6, falling; from 1 to 3; 1 not a number; evaluation 2 at step 1"
    )


@pytest.mark.parametrize(
    ("step", "total", "end"), [(0, 300, 10), (7, None, 8), (412, 3000, 500), (2900, 3000, 3000), (3000, 3000, 3000)]
)
def test_the_axis_of_steps_moves_in_steps(step: int, total: int | None, end: int) -> None:
    assert round_up(step, total) == end


def test_metrics_keep_their_places() -> None:
    first = in_order(["entropy", "grad_norm", "loss"], [])
    assert first == ["loss", "grad_norm", "entropy"]
    assert in_order(["loss", "reward", "entropy", "grad_norm", "loss"], first) == [*first, "reward"]


def test_a_sparkline_shows_gaps_and_never_more_than_full() -> None:
    assert sparkline((None, 0, 50, 100, 900), 100, 150).strip() == "▁▄▇▇"
    assert sparkline((), 100, 3) == "   "
    assert sparkline((1, 2), None, 3) == "   "


@given(st.text(alphabet="ab 界🚀", max_size=80), st.integers(8, 30))
def test_a_line_in_pieces_is_the_line_and_each_piece_fits(line: str, width: int) -> None:
    pieces = wrap(line, width)
    assert "".join(pieces) == line
    assert all(cell_len(piece) <= width for piece in pieces)


def test_numbers_spans_and_names_in_few_cells() -> None:
    assert [short(value) for value in (1.8347, 2e-05, 123456.7, 0, math.nan, -math.inf, None)] == [
        "1.835", "2e-05", "123457", "0", "NaN", "-inf", "–",
    ]  # fmt: skip
    assert [thousands(value) for value in (950, 31_240, 1_240_000)] == ["950", "31.2k", "1.24M"]
    assert [duration(value) for value in (11, 250, 2520, 4320, 183_600)] == [
        "11 s", "4 m 10 s", "42 m", "1 h 12 m", "2 d 3 h",
    ]  # fmt: skip
    assert cut_middle("mean_token_accuracy", 11) == "mean_…uracy"
    assert cell_len(pad("损失下降得很快", 9)) == 9
