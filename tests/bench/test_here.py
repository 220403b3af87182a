"""What the benchmarks of this machine tell about a plan: which of them counts, and in what words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from kerneltui.advice.situation import Situation
from kerneltui.bench.compare import packages_of
from kerneltui.bench.here import Made, beside_sdpa, made_here
from kerneltui.bench.records import Measured
from kerneltui.bench.store import store_of
from kerneltui.bench.summary import summarise
from kerneltui.show_bench import beside_line
from tests.advice.situations import H200, T4, make_server, make_situation
from tests.bench.made import KERNEL, SDPA, benchmark, by_point, comparison, failed, measured

_NAME = KERNEL.attention
_LENGTHS = (64, 1024, 4096)
_MEASURED = (
    *(measured(SDPA, length, 10.0 * length, 10.0 * length) for length in _LENGTHS),
    measured(KERNEL, 64, 700, 700),
    measured(KERNEL, 1024, 8192, 8192),
    measured(KERNEL, 4096, 20480, 20480),
)


def _made(*found: Measured, **changes: Any) -> Made:
    values = {"packages": packages_of(make_server(H200)), **changes}
    made = msgspec.structs.replace(benchmark(comparison(SDPA, KERNEL, lengths=_LENGTHS)), **values)
    return Made(benchmark=made, summary=summarise(made.comparison, by_point(*(found or _MEASURED))), name="quick-0")


def _plan(name: str = _NAME, **given: Any) -> Situation:
    return make_situation(given={"attn_implementation": name, **given})


def _line(situation: Situation, *made: Made) -> str | None:
    found = beside_sdpa(made, situation, situation.attention)
    return beside_line(found) if found else None


@pytest.mark.parametrize(
    ("length", "words"), [(1024, "0.80× "), (900, "0.80× "), (8192, "0.50× "), (32, "1.09× "), (None, "0.50× ")]
)
def test_the_nearest_length_tells_how_the_step_is_beside_that_of_sdpa(length: int | None, words: str) -> None:
    line = _line(_plan(max_length=length), _made())
    assert line and line.startswith(f"Measured here: {words}the step time of sdpa at ")
    assert line.endswith("tokens, in sft of Qwen3-0.6B (random weights)")


def test_a_native_name_finds_the_kernel_that_it_loads() -> None:
    assert _plan("flash_attention_2").attention.repository == _NAME
    assert "0.80×" in (_line(_plan("flash_attention_2"), _made()) or "")


def test_sdpa_itself_is_told_in_milliseconds() -> None:
    assert (_line(_plan("sdpa"), _made()) or "").startswith("Measured here: 10240 ms a step at 1024 tokens")


@pytest.mark.parametrize(
    ("one", "reason"),
    [
        (failed(KERNEL, 1024, "out_of_memory"), "out of memory"),
        (measured(KERNEL, 1024, 5, 5, sample=(9.0, 9.0, 9.0, 9.0)), "it computes something else than the reference"),
    ],
)
def test_no_figure_is_told_of_what_failed_or_computed_something_else(one: Measured, reason: str) -> None:
    line = _line(_plan(), _made(measured(SDPA, 1024, 10, 10), one))
    assert line == f"Measured here: {reason} at 1024 tokens, in sft of Qwen3-0.6B (random weights)"


@pytest.mark.parametrize(
    "situation",
    [
        _plan(packing=True),
        make_situation(given={"attn_implementation": _NAME}, server=make_server(T4)),
        make_situation(given={"attn_implementation": _NAME}, server=make_server(H200, torch="2.12.0")),
        make_situation(given={"attn_implementation": _NAME}, elsewhere=True),
        _plan("eager"),
        _plan(f"{_NAME}@v3"),
    ],
    ids=["packed", "another card", "another torch", "another machine", "another attention", "another revision"],
)
def test_what_was_measured_of_something_else_is_not_told(situation: Situation) -> None:
    assert _line(situation, _made()) is None


def test_the_plans_own_model_comes_first() -> None:
    own = _made(measured(SDPA, 64, 10, 10), measured(KERNEL, 64, 9, 9), model="Qwen/Qwen2.5-0.5B")
    line = _line(_plan(), _made(), own)
    assert line == "Measured here: 0.90× the step time of sdpa at 64 tokens, in sft of Qwen/Qwen2.5-0.5B"


def test_what_is_stored_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert made_here() == ()
    store = store_of(_made().benchmark)
    store.begin(_made().benchmark)
    for one in _MEASURED:
        store.add(one)
    assert made_here() == (msgspec.structs.replace(_made(), name=store.path.name),)
