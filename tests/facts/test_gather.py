"""Sources that are read at the same time."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from kerneltui.facts.gather import LATE, Source, gather


def test_values_come_as_they_are_there() -> None:
    first_is_out = threading.Event()

    def slow() -> Iterator[str]:
        first_is_out.wait(10)
        yield "slow"

    def quick() -> Iterator[int]:
        yield 1
        yield 2

    seen = []
    for value in gather([Source("slow", slow, 60), Source("quick", quick, 60)]):
        seen.append(value)
        if value == ("quick", 2):
            first_is_out.set()
    assert seen == [("quick", 1), ("quick", 2), ("slow", "slow")]


def test_one_that_hangs_is_late_and_holds_up_nothing() -> None:
    stuck = threading.Event()

    def hang() -> Iterator[str]:
        yield "before"
        stuck.wait()
        yield "after"

    found = list(gather([Source("hanging", hang, 0.05), Source("well", lambda: ["there"], 60)]))
    stuck.set()
    assert sorted(found, key=str) == [("hanging", "before"), ("hanging", LATE), ("well", "there")]


def test_what_a_source_raises_is_raised_to_its_reader() -> None:
    def fail() -> Iterator[str]:
        raise LookupError("broken")
        yield ""

    with pytest.raises(LookupError, match="broken"):
        list(gather([Source("failing", fail, 60)]))
