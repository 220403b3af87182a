"""The log: its end at once, progress bars as one line, and nothing that a terminal would obey."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rich.cells import cell_len

from kerneltui.runs import log as module
from kerneltui.runs.log import LogTail, LogView, to_line
from tests.tui.fake_runs import HOSTILE_LOG

CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def lines_of(path: Path, data: bytes) -> list[str]:
    path.write_bytes(data)
    return list(LogTail(path).poll().lines)


def test_no_log_yet_is_no_line(tmp_path: Path) -> None:
    tail = LogTail(tmp_path / "output.log")
    assert tail.poll() == LogView()
    (tmp_path / "output.log").write_text("one\n")
    assert tail.poll().lines == ("one",)


def test_a_progress_bar_is_one_line_in_its_last_state(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    path.write_bytes(b"start\n" + b"".join(b"\r%3d%%" % part for part in range(100)))
    tail = LogTail(path)
    assert tail.poll().lines == ("start", " 99%")
    with path.open("ab") as file:
        file.write(b"\r100%\r      \r{'loss': 1}\n")
    assert tail.poll().lines == ("start", "{'loss': 1}")


def test_a_bar_that_is_blank_between_two_states_does_not_flicker(tmp_path: Path) -> None:
    assert lines_of(tmp_path / "output.log", b"\r 42%|####|\r          ") == []
    path = tmp_path / "second.log"
    path.write_bytes(b"\r 42%|####|")
    tail = LogTail(path)
    tail.poll()
    with path.open("ab") as file:
        file.write(b"\r          \r")
    assert tail.poll().lines == (" 42%|####|",)


def test_bars_below_one_another_stay_two_lines(tmp_path: Path) -> None:
    # As tqdm draws a bar at position 1 below one at position 0.
    path = tmp_path / "output.log"
    path.write_bytes(b"\rfirst 0%\n\rsecond 0%\x1b[A")
    tail = LogTail(path)
    assert tail.poll().lines == ("first 0%", "second 0%")
    for part in range(1, 60):
        with path.open("ab") as file:
            file.write(b"\rfirst %d%%\n\rsecond %d%%\x1b[A" % (part, part))
        assert tail.poll().lines == (f"first {part}%", f"second {part}%")
    with path.open("ab") as file:
        file.write(b"\n\nafter\n")
    assert tail.poll().lines == ("first 59%", "second 59%", "after")


def test_what_was_written_long_ago_cannot_be_rewritten(tmp_path: Path) -> None:
    text = b"".join(b"line %d\n" % number for number in range(100)) + b"\x1b[9999Aover\n"
    lines = lines_of(tmp_path / "output.log", text)
    assert lines[:79] == [f"line {number}" for number in range(79)]
    assert lines.count("over") == 1


def test_no_control_sequence_passes(tmp_path: Path) -> None:
    lines = lines_of(tmp_path / "output.log", HOSTILE_LOG)
    assert not any(CONTROL.search(line) for line in lines)
    assert lines[0] == "title and clipboard"
    assert lines[1] == "red  mouse  c1  next"
    assert lines[2] == "[/red] [b [bold]not bold[/bold] [@click=app.quit]quit[/] $primary [/]"
    assert lines[3] == "损失下降:0.123 训练正常 ✅ 🚀 👩💻 ⚠ tail"
    assert lines[5].startswith("\ud7ff invalid: \ufffd\ufffd\ufffd( end")


def test_a_line_has_the_width_that_is_reckoned_with() -> None:
    assert cell_len(to_line(b"tab\tone")) == 11
    assert "\t" not in to_line(b"a\tb")
    assert to_line("👩\u200d💻⚠\ufe0f".encode()) == "👩💻⚠"


@pytest.mark.parametrize("size", [3000, 200_000, 3_000_000])
def test_a_line_without_end_is_cut(tmp_path: Path, size: int) -> None:
    (line,) = lines_of(tmp_path / "output.log", b"x" * size)
    assert line == "x" * 1999 + "…"


def test_the_end_of_a_long_log_is_there_at_once_and_no_more_is_kept_than_allowed(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    with path.open("wb") as file:
        for number in range(400_000):
            file.write(b"line %d of a long log, with some words in it\n" % number)
    view = LogTail(path).poll()
    assert view.lines[-1] == "line 399999 of a long log, with some words in it"
    assert 100 < len(view.lines) <= 5000
    assert view.lines[0].startswith("line ")


def test_storms_of_carriage_returns_do_not_hide_the_lines_before(tmp_path: Path) -> None:
    text = b"".join(b"line %d\n" % number for number in range(200))
    storm = b"".join(b"\r%d/100000" % number for number in range(100_000))
    assert lines_of(tmp_path / "output.log", text + storm)[-2:] == ["line 199", "99999/100000"]


def test_it_follows_by_offset_in_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SLICE", 1000)
    path = tmp_path / "output.log"
    path.write_bytes(b"")
    tail = LogTail(path, lines=50)
    tail.poll()
    path.write_bytes(b"".join(b"number %04d\n" % number for number in range(500)))
    views = [tail.poll()]
    while views[-1].behind:
        views.append(tail.poll())
    assert len(views) == 6
    last = views[-1]
    assert list(last.lines) == [f"number {number:04d}" for number in range(451, 500)]
    assert last.first + len(last.lines) == 500
    assert tail.poll() is last


def test_what_comes_too_fast_is_left_out_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SLICE", 1000)
    monkeypatch.setattr(module, "_BEHIND", 5000)
    path = tmp_path / "output.log"
    path.write_bytes(b"first\n")
    tail = LogTail(path)
    tail.poll()
    with path.open("ab") as file:
        file.write(b"".join(b"number %06d\n" % number for number in range(100_000)))
    lines = tail.poll().lines
    assert lines[0] == "first"
    assert "… 1.4 MB of the log are not shown …" in lines
    assert lines[-1] == "number 099999"
