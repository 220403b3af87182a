"""How an attempt ended, judged after the fact: by the last words of its ranks, of its launcher, and of its log."""

from __future__ import annotations

import signal

from kerneltui.runs.directory import Phase, RunDirectory, read_lines
from kerneltui.runs.last_words import Casualty, LastWords, read_last_words
from kerneltui.runs.ranks import Ranks
from kerneltui.text import plain_line

BY_REQUEST = "by request (stop --now)"
RESTARTED = "the machine was restarted"

_CRASH = "native code crashed, a kernel for example"
_MEANINGS: dict[int, str] = {
    signal.SIGKILL: "the system may have run out of memory",
    **dict.fromkeys((signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT), _CRASH),
}

Ending = tuple[Phase, str | None]


def how_it_ended(run: RunDirectory, attempt: int, code: int | None, *, killed: bool) -> Ending:
    """Return the phase and the reason of an attempt whose processes are gone.

    `code` is the launcher's exit code, None where another process was its parent. The launcher turns the signal that
    ended a rank into an exit code of its own, and the other ranks fail because that one is gone: so a rank that ended
    without a word comes first, then what a rank raised, then what the launcher and the log say.
    """
    events = [line for line in read_lines(run.events) if line.get("attempt") == attempt]
    if killed or any(event.get("event") == "kill" for event in events):
        return "killed", BY_REQUEST
    ranks = Ranks(attempt)
    for event in events:
        ranks.add(event)
    words = read_last_words(run.output(attempt))
    return (
        _by_signal(ranks, words)
        or _by_exception(ranks, words)
        or _by_ranks(ranks, words, code)
        or _by_launcher_signal(code)
        or _by_silence(ranks, words, code)
        or _by_log(words, code)
    )


def _by_signal(ranks: Ranks, words: LastWords) -> Ending | None:
    """Judge by a signal that ended a rank; the TERM by which the launcher ends those beside a failed one is none."""
    struck = [found for found in words.casualties if found.signal not in (None, signal.SIGTERM)]
    return ("killed", _without_a_word(ranks, struck[0])) if ranks.silent() and struck else None


def _by_exception(ranks: Ranks, words: LastWords) -> Ending | None:
    """Judge by what the first rank that failed has raised; a bare exit was explained in the log before."""
    failed = next((end for end in ranks.ends() if end.get("outcome") in ("failed", "interrupted")), None)
    if failed is None:
        return None
    error = failed.get("error")
    kind, message = (error.get("type"), error.get("message")) if isinstance(error, dict) else (None, None)
    if kind == "SystemExit" and str(message).isdigit() and words.line:
        return "failed", words.line
    return "failed", plain_line(f"{kind or failed['outcome']}: {message or ''}".rstrip(": "))


def _by_ranks(ranks: Ranks, words: LastWords, code: int | None) -> Ending | None:
    """Judge by ranks that have all come to their end; they may outlive a launcher that was killed."""
    ends = ranks.ends()
    if not ends or ranks.silent():
        return None
    if code and code > 0:
        return "failed", f"training came to its end, then its process failed on exit ({_how(words, code)})"
    return ("stopped", "by request, with a checkpoint") if ends[0].get("outcome") == "stopped" else ("finished", None)


def _by_launcher_signal(code: int | None) -> Ending | None:
    return ("killed", f"by signal {_name(-code).removeprefix('signal ')}") if code is not None and code < 0 else None


def _by_silence(ranks: Ranks, words: LastWords, code: int | None) -> Ending | None:
    """Judge by a rank that has no last word although no signal is known to have ended it."""
    if not ranks.silent():
        return None
    if code == 0:
        return "finished", "its last word is missing in the record; the exit code is 0"
    casualty = words.casualties[0] if words.casualties else None
    if casualty and casualty.signal:
        return "killed", _without_a_word(ranks, casualty)
    if code and words.exception:  # its last word did not reach the record: the disk may be full
        return "failed", words.exception
    return "failed" if casualty else "killed", _without_a_word(ranks, casualty)


def _by_log(words: LastWords, code: int | None) -> Ending:
    if code is None:
        return (
            "killed",
            "the training process ended without a word: by a signal, or by the system for want of memory",
        )
    return "failed", words.exception or words.line or f"exit code {code}"


def _without_a_word(ranks: Ranks, casualty: Casualty | None) -> str:
    silent = ranks.silent()
    rank = casualty.rank if casualty and casualty.rank in silent else min(silent)
    how = _meaning(casualty) if casualty else f"probably SIGKILL; {_MEANINGS[signal.SIGKILL]}"
    return f"rank {rank} ended without a word ({how})"


def _how(words: LastWords, code: int) -> str:
    return _meaning(words.casualties[0]) if words.casualties else f"exit code {code}"


def _meaning(casualty: Casualty) -> str:
    """Return the name of a signal and what it mostly means, or the exit code."""
    if casualty.signal is None:
        return f"exit code {casualty.code}"
    meaning = _MEANINGS.get(casualty.signal)
    return _name(casualty.signal) + (f"; {meaning}" if meaning else "")


def _name(number: int) -> str:
    """Return the name of a signal; real-time signals have none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
