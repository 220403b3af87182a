"""Looking for lines of a log: the nearest above and below, in slices, whatever the lines are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerneltui.runs import log_search as module
from kerneltui.runs.log import to_line
from kerneltui.runs.log_search import excerpt, find
from tests.runs.test_log import CONTROL
from tests.tui.fake_runs import HOSTILE_LOG


def numbered(path: Path, count: int) -> Path:
    path.write_bytes(b"".join(b"number %06d\n" % number for number in range(count)))
    return path


def test_the_nearest_line_above_and_below_is_found(tmp_path: Path) -> None:
    path = numbered(tmp_path / "output.log", 100_000)
    wanted = re.compile(r"^number 0.0000$").search
    places = [find(path, None, wanted, up=True)]
    while places[-1] is not None:
        places.append(find(path, places[-1], wanted, up=True))
    assert [place // 14 for place in places if place is not None] == [
        90000, 80000, 70000, 60000, 50000, 40000, 30000, 20000, 10000, 0,
    ]  # fmt: skip
    assert find(path, 14 * 30000, wanted, up=False) == 14 * 40000
    assert find(path, 14 * 90000, wanted, up=False) is None


def test_it_reads_slices_and_no_more_than_up_to_what_it_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SLICE", 1000)
    path = numbered(tmp_path / "output.log", 100_000)
    asked = []

    def stop() -> bool:
        asked.append(1)
        return False

    assert find(path, None, re.compile("099900").search, up=True, stop=stop)
    assert 1 <= len(asked) <= 3
    assert find(path, None, re.compile("000001").search, up=True, stop=lambda: True) is None


@given(
    lines=st.lists(
        st.sampled_from([b"", b"a", b"hit", b"a hit", b"\xff", b"x" * 20, b"\rhit\rb", b"\x1b[1mhit"]), max_size=20
    ),
    size=st.integers(1, 30),
    ended=st.booleans(),
)
def test_it_finds_in_slices_of_any_size_what_stands_in_the_whole(
    lines: list[bytes], size: int, ended: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    data = b"\n".join(lines) + (b"\n" if ended else b"")
    path = tmp_path_factory.getbasetemp() / "any.log"
    path.write_bytes(data)
    starts = [sum(len(line) + 1 for line in lines[:number]) for number in range(len(lines))]
    hits = [start for start, line in zip(starts, lines, strict=True) if "hit" in to_line(line)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_SLICE", size)
        upwards, downwards = [], []
        place = find(path, None, re.compile("hit").search, up=True)
        while place is not None:
            upwards.append(place)
            place = find(path, place, re.compile("hit").search, up=True)
        place = find(path, 0, re.compile("hit").search, up=False)
        while place is not None:
            downwards.append(place)
            place = find(path, place, re.compile("hit").search, up=False)
    assert upwards == hits[::-1]
    assert downwards == [hit for hit in hits if hit > 0]


def test_an_excerpt_has_the_lines_around_and_says_whether_it_reaches_the_end(tmp_path: Path) -> None:
    path = numbered(tmp_path / "output.log", 20_000)
    found = excerpt(path, 14 * 10_000)
    assert found.lines[found.number] == "number 010000"
    assert found.lines[found.number - 1 : found.number + 2] == ("number 009999", "number 010000", "number 010001")
    assert [offset // 14 for offset in found.offsets] == [int(line.split()[1]) for line in found.lines]
    assert 900 < len(found.lines) < 1100
    assert not found.ends
    last = excerpt(path, 14 * 19_999)
    assert last.ends
    assert last.lines[-1] == last.lines[last.number] == "number 019999"
    first = excerpt(path, 0)
    assert (first.number, first.offsets[0]) == (0, 0)


def test_a_long_line_is_found_by_its_ends_and_shown_as_the_pane_shows_it(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    storm = b"".join(b"\r%d/100000" % number for number in range(100_001))
    path.write_bytes(b"before\nstart " + b"x" * 3_000_000 + b"\n" + storm + b"\nafter\n")
    (long, bar) = (find(path, None, re.compile(text).search, up=True) for text in ("^start x", "^100000/100000$"))
    assert (long, bar) == (7, 7 + 6 + 3_000_000 + 1)
    assert bar is not None
    found = excerpt(path, bar)
    assert found.lines[found.number :] == ("100000/100000", "after")


def test_what_is_hostile_is_plain_text(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    path.write_bytes(HOSTILE_LOG)
    place = find(path, None, re.compile("^red  mouse").search, up=True)
    assert place is not None
    assert not any(CONTROL.search(line) for line in excerpt(path, place).lines)


def test_a_file_that_is_gone_or_was_cut(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        find(tmp_path / "output.log", None, bool, up=True)
    path = numbered(tmp_path / "output.log", 3)
    assert find(path, 10_000, bool, up=False) is None
    assert find(path, 10_000, bool, up=True) == 28
    path.write_bytes(b"")
    assert find(path, None, bool, up=True) is None
    assert excerpt(path, 500).lines == ("",)
