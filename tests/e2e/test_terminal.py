"""A run outlives the app that started or found it; and the app leaves its terminal as it was, as far as it can."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import signal
import struct
import sys
import termios
import threading
from pathlib import Path

from kerneltui.runs.directory import RunDirectory, read_lines
from kerneltui.runs.find import list_runs
from tests.e2e.test_launch import kerneltui, write_config
from tests.waiting import until

LEFT = (b"\x1b[?1049l", b"\x1b[?25h")


class Terminal:
    """kerneltui on a pty of 100×30, as the leader of a session of its own; `seen` is all that it has written."""

    def __init__(self, cwd: Path, *arguments: str) -> None:
        self.seen = b""
        self.child, self.master = pty.fork()
        if self.child == 0:
            os.chdir(cwd)
            os.environ.update(TERM="xterm-256color", PYTHONPATH=str(Path(__file__).parents[2]))
            os.execv(sys.executable, [sys.executable, "-P", "-m", "kerneltui", *arguments])
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        self.modes = termios.tcgetattr(self.master)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            while data := os.read(self.master, 1 << 16):
                self.seen += data

    def shows(self, text: str) -> None:
        """Wait for a text."""
        until(lambda: text.encode() in self.seen, limit=180)

    def press(self, keys: str) -> None:
        """Type keys."""
        os.write(self.master, keys.encode())

    def ended(self) -> int:
        """Wait until the program has ended; return how, as `os.waitpid` does."""
        _, status = until(lambda: (found := os.waitpid(self.child, os.WNOHANG))[0] and found, limit=60)  # type: ignore[misc]
        return int(status)


def steps(run: RunDirectory) -> int:
    """Return how many lines of progress and values the run has written."""
    return len(read_lines(run.metrics)) if run.metrics.exists() else 0


def goes_on(run: RunDirectory) -> None:
    """Wait until the run has written more than it has now."""
    before = steps(run)
    until(lambda: steps(run) > before + 2)
    assert run.read_state().phase == "running"


def test_a_run_outlives_hangup_and_kill_of_the_app_and_the_terminal_is_given_back(tmp_path: Path) -> None:
    write_config(tmp_path / "config.yaml", attn_implementation="sdpa", max_steps=100000)
    app = Terminal(tmp_path, "--runs-dir", "runs")
    app.shows("No runs yet")
    app.shows("transformers")  # the server is read too
    app.press("o")
    app.shows("Its path, as you")
    app.press("config.yaml\r")
    app.shows("Ready")
    app.press("\r")
    until(lambda: (tmp_path / "runs").exists() and list_runs(tmp_path / "runs"), limit=60)
    (run,) = list_runs(tmp_path / "runs")
    try:
        until(lambda: steps(run) > 2, limit=180)
        os.close(app.master)  # the terminal hangs up: SIGHUP to its session
        app.ended()
        goes_on(run)

        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP):
            again = Terminal(tmp_path, "watch", run.name, "--runs-dir", "runs")
            again.shows("running")
            again.shows("\x1b[?1049h")
            os.kill(again.child, number)
            status = again.ended()
            goes_on(run)
            if number == signal.SIGKILL:
                assert os.WTERMSIG(status) == number  # nothing can be put right then: `reset` does
                continue
            assert os.waitstatus_to_exitcode(status) == 128 + number
            until(lambda found=again: all(mode in found.seen for mode in LEFT))  # type: ignore[misc]
            assert b"Traceback" not in again.seen
            assert termios.tcgetattr(again.master)[:4] == again.modes[:4]
            os.close(again.master)
    finally:
        kerneltui("stop", run.name, "--now", "--runs-dir", "runs", environment={}, cwd=tmp_path)
        until(lambda: run.read_state().phase == "killed")
