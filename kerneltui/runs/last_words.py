"""What the end of a log says of the end of training: the exception that was printed, and what the launcher tells."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kerneltui.text import plain, plain_line

# How much of the end of a log is read, in bytes.
_TAIL = 1 << 16
_TRACEBACK = "Traceback (most recent call last):"
_EXCEPTION = re.compile(r"([A-Za-z_][\w.]*)(?::(?:\s.*)?)?")
# What accelerate's launchers raise when a process of theirs has failed (subprocess; torch.distributed.elastic), or when
# they are ended themselves.
_LAUNCHERS = ("CalledProcessError", "ChildFailedError", "SignalException")
_ALONE = re.compile(
    r"(?:died with <Signals\.\w+: (?P<signal>\d+)>|died with unknown signal (?P<unknown>\d+)"
    r"|got signal: (?P<own>\d+)|returned non-zero exit status (?P<status>\d+))\.?\s*$",
    re.MULTILINE,
)
_RANK = re.compile(r"^  rank\s*: (?P<rank>\d+).*\n  exitcode\s*: (?P<code>-?\d+)", re.MULTILINE)
# Elastic ends the ranks beside a failed one, the deaf ones by KILL (multiprocessing/api.py).
_FORCED = "forcefully exiting via"
# torch.distributed's own log lines: level, date, time.
_TORCH_LOG = re.compile(r"(?:\[rank\d+\]:)?[WEIF]\d{4} \d\d:\d\d:\d\d")


@dataclass(frozen=True)
class Casualty:
    """A rank whose end the launcher tells: negative `code` for a signal; `rank` is None where there is but one."""

    rank: int | None
    code: int

    @property
    def signal(self) -> int | None:
        """The number of the signal, also where a shell has turned it into 128 and more; None for an exit code."""
        if self.code < 0:
            return -self.code
        return self.code - 128 if self.code - 128 in set(signal.Signals) else None


@dataclass(frozen=True)
class LastWords:
    """What a log says before its launcher: the last exception that was printed, the last line; "" for none.

    `casualties` are the ends of ranks that the launcher tells, the cause first.
    """

    exception: str = ""
    line: str = ""
    casualties: tuple[Casualty, ...] = ()


def read_last_words(log: Path) -> LastWords:
    """Return what the end of a log says; nothing where it cannot be read."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL))
            lines = [_last_state(line) for line in file.read().decode("utf-8", "replace").split("\n")]
    except OSError:
        return LastWords()
    tracebacks = list(_tracebacks(lines))
    casualties: tuple[Casualty, ...] = ()
    if tracebacks and tracebacks[-1].kind in _LAUNCHERS:
        launcher = tracebacks.pop()
        forced = any(_FORCED in line for line in lines)
        casualties = _casualties("\n".join(lines[launcher.start :]), forced=forced)
        lines = lines[: launcher.start]
    return LastWords(tracebacks[-1].text if tracebacks else "", _last_line(lines), casualties)


@dataclass(frozen=True)
class _Traceback:
    """A traceback that was printed: the index of its first line, the last part of the exception's type, its line."""

    start: int
    kind: str
    text: str


def _tracebacks(lines: list[str]) -> Iterator[_Traceback]:
    for start, line in enumerate(lines):
        # A progress bar may stand before it on the same line.
        if not line.endswith(_TRACEBACK):
            continue
        prefix = found[0] if (found := re.match(r"\[rank\d+\]: ", line)) else ""
        for text in lines[start + 1 :]:
            if exception := _EXCEPTION.fullmatch(text.removeprefix(prefix)):
                yield _Traceback(start, exception[1].rpartition(".")[2], exception[0].strip().removesuffix(":"))
                break


def _casualties(told: str, *, forced: bool) -> tuple[Casualty, ...]:
    """Return the ends of ranks in what a launcher raised; where it has `forced` some, that of the cause alone."""
    others, _, cause = told.partition("Root Cause")
    ranks = [Casualty(int(found["rank"]), int(found["code"])) for found in _RANK.finditer(cause)]
    if not forced:
        ranks += [Casualty(int(found["rank"]), int(found["code"])) for found in _RANK.finditer(others)]
    if alone := _ALONE.search(told):
        number = alone["signal"] or alone["unknown"] or alone["own"]
        ranks.append(Casualty(None, -int(number) if number else int(alone["status"])))
    return tuple(ranks)


def _last_line(lines: list[str]) -> str:
    """Return the last line with a letter or a digit that is no bookkeeping of torch."""
    said = (line for line in reversed(lines) if any(map(str.isalnum, line)) and not _TORCH_LOG.match(line))
    return plain_line(next(said, ""))


def _last_state(line: str) -> str:
    """Return a line without control characters; of one that carriage returns rewrite, its last state."""
    return plain(line.rstrip("\r").rpartition("\r")[2]).rstrip()
