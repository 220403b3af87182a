"""How long the first picture takes: `python -m tests.benchmarks.first_frame [PAIRS]`.

Starts kerneltui and an empty Textual app in turn on a pty of 120×40 and prints, as a ratio, the seconds from the
command to the first frame that has the screen's last line (its footer).
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import statistics
import struct
import sys
import tempfile
import termios
import time

EMPTY = """
from textual.app import App
from textual.widgets import Footer
class Empty(App):
    BINDINGS = [("q", "quit", "Quit")]
    def compose(self):
        yield Footer()
Empty().run()
"""


def set_size(terminal: int) -> None:
    """Make a terminal 120×40."""
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))


def seconds_to(command: list[str], text: bytes, *, limit: float = 60) -> float:
    """Return the seconds until a program on a new pty has written `text`."""
    start = time.perf_counter()
    child, terminal = pty.fork()
    if child == 0:
        os.environ.update(TERM="xterm-256color", COLORTERM="truecolor")
        os.execv(command[0], command)
    set_size(terminal)
    seen = b""
    try:
        while text not in seen:
            if not select.select([terminal], [], [], limit)[0]:
                raise TimeoutError(command)
            seen += os.read(terminal, 1 << 16)
        return time.perf_counter() - start
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(terminal)


def main() -> None:
    """Print each pair and the ratio of the medians."""
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    with tempfile.TemporaryDirectory() as runs:
        ours = [sys.executable, "-P", "-m", "kerneltui", "--runs-dir", runs]
        empty = [sys.executable, "-P", "-c", EMPTY]
        times: dict[str, list[float]] = {"kerneltui": [], "empty": []}
        for pair in range(pairs):
            arms = [("kerneltui", ours, b"New run"), ("empty", empty, b"Quit")]
            for name, command, text in arms if pair % 2 else arms[::-1]:
                times[name].append(seconds_to(command, text))
            told = "  ".join(f"{name} {found[-1]:.3f} s" for name, found in times.items())
            print(f"pair {pair + 1}: {told}", flush=True)
    ratio = statistics.median(times["kerneltui"]) / statistics.median(times["empty"])
    print(f"kerneltui / empty Textual app = {ratio:.2f} (median of {pairs})")


if __name__ == "__main__":
    main()
