"""Waiting for conditions, never for a number of seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(condition: Callable[[], T], *, limit: float = 120) -> T:
    """Return the first true value of `condition`; fails when there is none within `limit` seconds."""
    deadline = time.monotonic() + limit
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {limit:.0f} s: {condition}"
        time.sleep(0.02)
    return value
