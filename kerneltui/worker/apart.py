"""Run something in a child process that may print, hang or die without harm to this one."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from typing import Any


class NoAnswerError(Exception):
    """The child gave no answer: it took too long, or died."""


def run_apart(work: Callable[[], Any], seconds: float) -> Any:
    """Return what `work` gives in a copy of this process, as JSON can hold it. Raises NoAnswerError.

    A copy is there at once with all that is imported here. It has one thread of torch, since a pool of threads is not
    copied with it.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        _answer(work, writing)
    os.close(writing)
    try:
        return json.loads(_read(reading, time.monotonic() + seconds))
    except TimeoutError:
        raise NoAnswerError(f"it gave no answer within {seconds:.0f} s") from None
    except ValueError:
        raise NoAnswerError("its process died") from None
    finally:
        os.close(reading)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _answer(work: Callable[[], Any], writing: int) -> None:
    """Write what `work` gives, and end the child."""
    try:
        os.setpgid(0, 0)
        if torch := sys.modules.get("torch"):
            torch.set_num_threads(1)
        os.write(writing, json.dumps(work()).encode())
    finally:
        os._exit(0)


def _read(reading: int, deadline: float) -> bytes:
    found = b""
    while True:
        ready, _, _ = select.select([reading], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise TimeoutError
        piece = os.read(reading, 1 << 16)
        if not piece:
            return found
        found += piece
