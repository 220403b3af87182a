"""The title of the terminal: what a background tab tells of a run, only where there is a terminal, and put back."""

from __future__ import annotations

import os
import pty
import re
import select
import sys
from pathlib import Path
from typing import Any

import pytest
from textual.app import App
from textual.pilot import Pilot

from kerneltui.runs.live import LiveRun
from kerneltui.tui import terminal_title
from kerneltui.tui.terminal_title import TerminalTitle, title_of
from tests.tui import fake_runs
from tests.tui.fake_runs import FakeRun
from tests.tui.test_run_screen import recently
from tests.tui.watching import until, watch

# Opens the live pane of a run in a terminal, and leaves it when its title says that the run has ended.
PROGRAM = """
import sys
from pathlib import Path
from kerneltui.runs.directory import RunDirectory
from tests.tui.watching import WatchApp
app = WatchApp(RunDirectory(Path(sys.argv[1])))
app.call_later(lambda: app.set_interval(0.05, lambda: app.run_screen.curves and app.run_screen.action_leave()))
app.run()
"""


def title(fake: FakeRun) -> str:
    run = LiveRun(fake.run)
    view = run.poll()
    while view.behind:
        view = run.poll()
    return title_of(view)


def test_it_has_step_loss_and_time_left_and_says_how_a_run_ended(tmp_path: Path) -> None:
    told = title(fake_runs.running(tmp_path, start=recently()))
    assert re.fullmatch(r"● 412/3000 · loss 1\.762 · 5 m left · calm-otter", told)
    assert title(fake_runs.finished(tmp_path)).startswith("✔ finished · 300/300 · loss ")
    assert title(fake_runs.failed(tmp_path)).startswith("✖ failed · 120/500 · loss ")
    assert title(FakeRun(tmp_path, "early")) == "● running · early"


def test_only_characters_that_a_terminal_draws_are_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    monkeypatch.setattr(terminal_title, "_has_title", lambda *_: True)
    monkeypatch.setattr(terminal_title, "_write", lambda _, sequence: written.append(sequence))
    shown = TerminalTitle(App())
    shown.show("a\x1b]52;c;ZXZpbA==\x07b\x9c\x07\n\u202ec" + "x" * 200)
    shown.show("a\x1b]52;c;ZXZpbA==\x07b\x9c\x07\n\u202ec" + "x" * 200)
    shown.put_back()
    shown.put_back()
    (one, back) = written
    assert back == "\x1b[23;2t"
    inner = one.removeprefix("\x1b[22;2t\x1b]2;").removesuffix("\x1b\\")
    assert inner.isprintable()
    assert inner.startswith("ab cxxx")
    assert len(inner) == 80


@pytest.mark.parametrize("term", ["dumb", "linux"])
def test_a_terminal_without_a_title_gets_none(monkeypatch: pytest.MonkeyPatch, term: str) -> None:
    class Terminal:
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "__stderr__", Terminal())
    app: App[Any] = App()
    monkeypatch.setattr(App, "is_headless", False)
    assert terminal_title._has_title(app, {"TERM": "xterm-256color"})
    assert not terminal_title._has_title(app, {"TERM": term})
    monkeypatch.setattr(Terminal, "isatty", lambda _: False)
    assert not terminal_title._has_title(app, {"TERM": "xterm-256color"})


def test_the_pane_keeps_it_up_to_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    monkeypatch.setattr(terminal_title, "_has_title", lambda *_: True)
    monkeypatch.setattr(terminal_title, "_write", lambda _, sequence: written.append(sequence))
    fake = fake_runs.running(tmp_path, start=recently())

    async def play(pilot: Pilot[str]) -> None:
        await until(pilot, lambda: written and "412/3000" in written[-1])
        fake.state("finished", code=0)
        await until(pilot, lambda: "✔ finished" in written[-1])
        await pilot.press("l")

    watch(fake.run, play)
    assert written[0].startswith("\x1b[22;2t")
    assert [sequence for sequence in written if "22;2t" in sequence] == written[:1]
    assert written[-1] == "\x1b[23;2t"


def test_a_real_terminal_gets_it_and_gets_its_own_back(tmp_path: Path) -> None:
    # Textual's driver, which is private, is what it goes through.
    fake = fake_runs.finished(tmp_path)
    child, terminal = pty.fork()
    if child == 0:
        os.environ.update(TERM="xterm-256color")
        os.execv(sys.executable, [sys.executable, "-c", PROGRAM, str(fake.run.path)])
    data = b""
    while select.select([terminal], [], [], 60)[0]:
        try:
            piece = os.read(terminal, 1 << 16)
        except OSError:  # the other side is closed
            break
        data += piece
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    titles = re.findall(rb"\x1b\]2;([^\x1b]*)\x1b\\", data)
    assert [text.decode() for text in titles] == [title(fake)]
    assert data.index(b"\x1b[22;2t") < data.index(b"\x1b]2;") < data.index(b"\x1b[23;2t")
