import csv
import io
import xml.etree.ElementTree as ET

import pytest
from rich.console import Console

from kerneltui.bench.summary import summarise
from kerneltui.show_bench import describe, picture, point_line, to_csv, to_markdown, to_svg
from tests.bench.made import KERNEL, SDPA, benchmark, by_point, comparison, failed, measured

_GIB = 1 << 30
_LOADED = {"repository": KERNEL.attention, "commit": "db6b5174", "variant": "torch211-cxx11-cu130"}
_BUILD = f"{KERNEL.attention} commit db6b5174 build torch211-cxx11-cu130"
_FOUND = by_point(
    measured(SDPA, 64, 10, 10, peak=2 * _GIB, throttle=("power cap",)),
    measured(KERNEL, 64, 12, 12, peak=3 * _GIB, ready=2.5, kernels=(_LOADED,)),
    measured(SDPA, 128, 40, 40, peak=4 * _GIB),
    failed(KERNEL, 128, "out_of_memory"),
)
_MADE = benchmark(comparison(layers=4))
_SUMMARY = summarise(_MADE.comparison, _FOUND)


def _printed(width: int) -> list[str]:
    console = Console(width=width, file=io.StringIO(), record=True)
    console.print(picture(_MADE, _SUMMARY))
    return console.export_text().splitlines()


def test_the_picture_has_bars_and_tables() -> None:
    lines = _printed(100)
    assert lines[0] == "sft of Qwen3-0.6B (random weights) on NVIDIA H200"
    assert "One step at 128 tokens" in lines
    words = [line.split() for line in lines]
    assert ["step,", "ms", "64", "128"] in words
    assert ["kernels-community/flash-attn2", "12.0", "±0%", "OOM"] in words
    assert ["kernels-community/flash-attn2", "3.0", "–"] in words
    assert "Of the model's layers the first 4 alone, not scaled to the whole." in lines
    assert "✖ kernels-community/flash-attn2 at 128: out of memory" in lines
    assert f"Loaded: {_BUILD}" in lines
    assert "Clocks were lowered (power cap): sdpa at 64" in lines
    assert "Loading kernels-community/flash-attn2 took 2.50 s the first time." in lines


def test_the_picture_fits_a_narrow_terminal() -> None:
    assert max(map(len, _printed(80))) <= 80


def test_csv_has_a_line_a_cell_and_what_is_needed_to_repeat_it() -> None:
    rows = list(csv.DictReader(io.StringIO(to_csv(_MADE, _SUMMARY))))
    assert len(rows) == 4
    assert rows[0]["attention"] == "sdpa" and float(rows[0]["step_ms"]) == 10
    assert {row["torch"] for row in rows} == {"2.11.0"} and {row["device"] for row in rows} == {"NVIDIA H200"}
    assert [row["builds"] for row in rows] == ["", _BUILD, "", ""]
    assert rows[3]["reason"] == "out of memory"


def test_markdown_has_the_tables_and_the_command() -> None:
    text = to_markdown(_MADE, _SUMMARY, "kerneltui bench --preset quick")
    assert "| sdpa | ★ 10.0 ±0% | ★ 40.0 ±0% |" in text
    assert "`kerneltui bench --preset quick`" in text and "driver 580.159.04" in text


def test_svg_is_a_drawing() -> None:
    root = ET.fromstring(to_svg(_MADE, _SUMMARY))
    assert root.tag.endswith("svg")
    assert "flash-attn2" in "".join(root.itertext())


def test_a_point_is_told_in_one_line() -> None:
    good, _, _, bad = _FOUND.values()
    assert point_line(good) == "✔ sdpa at 64: 10.0 ms a step, 2.0 GiB"
    assert point_line(bad) == "✖ kernels-community/flash-attn2 at 128: out of memory"


@pytest.mark.parametrize("there", [{}, _FOUND])
def test_it_says_what_is_there_already(there: dict) -> None:  # type: ignore[type-arg]
    assert describe(_MADE.comparison, there).endswith("measured before" if there else "4 points")


def test_hostile_names_are_shown_as_text() -> None:
    made = benchmark(comparison(SDPA.__class__(attention="[red]x\x1b]0;t\x07[/red]"), SDPA))
    found = by_point(measured(made.comparison.contenders[0], 64, 1, 1))
    lines = Console(width=80, file=io.StringIO(), record=True)
    lines.print(picture(made, summarise(made.comparison, found)))
    assert "[red]x" in lines.export_text(clear=False) and "\x1b" not in lines.export_text()
