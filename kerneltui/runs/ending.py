"""How an attempt ended, judged after the fact: by the last words of its ranks, of its launcher, and of its log."""

from __future__ import annotations

import signal
from typing import Any, NamedTuple

from kerneltui.runs.directory import Phase, RunDirectory, read_lines
from kerneltui.runs.explain import explain_events
from kerneltui.runs.last_words import Casualty, LastWords, read_last_words
from kerneltui.runs.oom_killer import struck_since
from kerneltui.runs.ranks import Ranks
from kerneltui.text import plain_line

BY_REQUEST = "by request (stop --now)"
RESTARTED = "the machine was restarted"

_CRASH = "native code crashed, a kernel for example"
_WANT = "the kernel ended it: the machine was out of memory"
_MEANINGS: dict[int, str] = {
    signal.SIGKILL: "the system may have run out of memory",
    **dict.fromkeys((signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT), _CRASH),
}

# Whether the kernel has ended processes for want of memory while the run ran -> what its SIGKILL means.
_KILLS = {
    True: _WANT,
    False: "not by the kernel for want of memory: somebody, or a scheduler, ended it",
    None: _MEANINGS[signal.SIGKILL],
}
_WAYS_OUT = {
    _WANT: "Fewer dataloader_num_workers and dataset_num_proc, a streamed data set, or more memory. Then resume.",
    _CRASH: "Try attn_implementation: sdpa. If that works, it is the attention kernel: pin another revision of it.",
}


class Ending(NamedTuple):
    """The phase and the reason of an end; `way_out` is what to do, `changes` the settings of TRL that do it."""

    phase: Phase
    reason: str | None
    way_out: str | None = None
    changes: dict[str, Any] = {}


def how_it_ended(run: RunDirectory, attempt: int, code: int | None, *, killed: bool) -> Ending:
    """Return how an attempt ended whose processes are gone.

    `code` is the launcher's exit code, None where another process was its parent. The launcher turns the signal that
    ended a rank into an exit code of its own, and the other ranks fail because that one is gone: so a rank that ended
    without a word comes first, then what a rank raised, then what the launcher and the log say.
    """
    events = [line for line in read_lines(run.events) if line.get("attempt") == attempt]
    if killed or any(event.get("event") == "kill" for event in events):
        return Ending("killed", BY_REQUEST)
    ranks = Ranks(attempt)
    before = next((event.get("oom_kills") for event in events if event.get("event") == "run_begin"), None)
    killed_by = _KILLS[struck_since(before)]
    for event in events:
        ranks.add(event)
    words = read_last_words(run.output(attempt))
    ending = (
        _by_signal(ranks, words, killed_by)
        or _by_exception(ranks, words)
        or _by_ranks(ranks, words, code)
        or _by_launcher_signal(code)
        or _by_silence(ranks, words, code, killed_by)
        or _by_log(words, code)
    )
    return _explained(ending, events, words)


def _explained(ending: Ending, events: list[dict[str, Any]], words: LastWords) -> Ending:
    """Return an ending with its way out, and where the exception is known with its cause in plain words."""
    if ending.phase == "killed":
        ways = [way for what, way in _WAYS_OUT.items() if what in str(ending.reason)]
        return ending._replace(way_out=next(iter(ways), None))
    found = explain_events(events, words.exception) if ending.phase == "failed" else None
    return Ending("failed", plain_line(found.cause), found.way_out, found.changes) if found else ending


def _by_signal(ranks: Ranks, words: LastWords, killed_by: str) -> Ending | None:
    """Judge by a signal that ended a rank; the TERM by which the launcher ends those beside a failed one is none."""
    struck = [found for found in words.casualties if found.signal not in (None, signal.SIGTERM)]
    return Ending("killed", _without_a_word(ranks, struck[0], killed_by)) if ranks.silent() and struck else None


def _by_exception(ranks: Ranks, words: LastWords) -> Ending | None:
    """Judge by what the first rank that failed has raised; a bare exit was explained in the log before."""
    failed = next((end for end in ranks.ends() if end.get("outcome") in ("failed", "interrupted")), None)
    if failed is None:
        return None
    error = failed.get("error")
    kind, message = (error.get("type"), error.get("message")) if isinstance(error, dict) else (None, None)
    if kind == "SystemExit" and str(message).isdigit() and words.line:
        return Ending("failed", words.line)
    return Ending("failed", plain_line(f"{kind or failed['outcome']}: {message or ''}".rstrip(": ")))


def _by_ranks(ranks: Ranks, words: LastWords, code: int | None) -> Ending | None:
    """Judge by ranks that have all come to their end; they may outlive a launcher that was killed."""
    ends = ranks.ends()
    if not ends or ranks.silent():
        return None
    if code and code > 0:
        return Ending("failed", f"training came to its end, then its process failed on exit ({_how(words, code)})")
    if ends[0].get("outcome") == "stopped":
        return Ending("stopped", "by request, with a checkpoint")
    return Ending("finished", None)


def _by_launcher_signal(code: int | None) -> Ending | None:
    if code is None or code >= 0:
        return None
    return Ending("killed", f"by signal {_name(-code).removeprefix('signal ')}")


def _by_silence(ranks: Ranks, words: LastWords, code: int | None, killed_by: str) -> Ending | None:
    """Judge by a rank that has no last word although no signal is known to have ended it."""
    if not ranks.silent():
        return None
    if code == 0:
        return Ending("finished", "its last word is missing in the record; the exit code is 0")
    casualty = words.casualties[0] if words.casualties else None
    if casualty and casualty.signal:
        return Ending("killed", _without_a_word(ranks, casualty, killed_by))
    if code and words.exception:  # its last word did not reach the record: the disk may be full
        return Ending("failed", words.exception)
    return Ending("failed" if casualty else "killed", _without_a_word(ranks, casualty, killed_by))


def _by_log(words: LastWords, code: int | None) -> Ending:
    if code is None:
        words_for_it = "the training process ended without a word: by a signal, or by the system for want of memory"
        return Ending("killed", words_for_it)
    return Ending("failed", words.exception or words.line or f"exit code {code}")


def _without_a_word(ranks: Ranks, casualty: Casualty | None, killed_by: str) -> str:
    silent = ranks.silent()
    rank = casualty.rank if casualty and casualty.rank in silent else min(silent)
    how = _meaning(casualty, killed_by) if casualty else f"probably SIGKILL; {killed_by}"
    return f"rank {rank} ended without a word ({how})"


def _how(words: LastWords, code: int) -> str:
    return _meaning(words.casualties[0], _KILLS[None]) if words.casualties else f"exit code {code}"


def _meaning(casualty: Casualty, killed_by: str) -> str:
    """Return the name of a signal and what it mostly means, or the exit code."""
    if casualty.signal is None:
        return f"exit code {casualty.code}"
    meaning = killed_by if casualty.signal == signal.SIGKILL else _MEANINGS.get(casualty.signal)
    return _name(casualty.signal) + (f"; {meaning}" if meaning else "")


def _name(number: int) -> str:
    """Return the name of a signal; real-time signals have none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
