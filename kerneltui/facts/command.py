"""Short questions to other programs, with a deadline."""

from __future__ import annotations

import subprocess
from collections.abc import Collection

# Seconds: these programs answer in some milliseconds, unless a server behind them does not.
TIMEOUT = 5.0


class UnansweredError(Exception):
    """A program gave no answer; its text says why."""


def ask_program(*command: str, codes: Collection[int] = (0,)) -> str:
    """Return what a program prints.

    Raises UnansweredError: it is not there, ends with an exit code that is not among `codes`, or takes more than
    `TIMEOUT`.
    """
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UnansweredError(f"{command[0]} has not answered in {TIMEOUT:g} s") from None
    except OSError as error:
        raise UnansweredError(f"{command[0]}: {error.strerror or error}") from None
    if done.returncode not in codes:
        raise UnansweredError(f"{command[0]}: {done.stderr.strip() or f'exit code {done.returncode}'}")
    return done.stdout
