"""How many requests the Hub still allows, by its own headers, and what is kept for a run's downloads.

An anonymous client has a few hundred requests in five minutes, and shares them with all behind the same address.
"""

from __future__ import annotations

import re
import threading
import time
from typing import NamedTuple

from kerneltui.errors import HubError
from kerneltui.facts.hub_errors import Reply

# RateLimit: "api";r=489;t=247 and RateLimit-Policy: "fixed window";"api";q=500;w=300, as huggingface_hub reads them
# (https://www.ietf.org/archive/id/draft-ietf-httpapi-ratelimit-headers-09.html).
_LIMIT = re.compile(r'"(\w+)"\s*;\s*r\s*=\s*(\d+)\s*;\s*t\s*=\s*(\d+)')
_QUOTA = re.compile(r"q\s*=\s*(\d+)")
_AFTER = re.compile(r"\s*(\d+)\s*")

# A fifth of what the Hub allows, and this many where it does not say how many that are, are for the run: its
# model, its data and its kernel take some dozens.
_SHARE = 5
_KEPT = 100
# How long, in seconds, the Hub is left alone after a refusal that does not say for how long.
_WAIT = 30


class _Allowance(NamedTuple):
    remaining: int
    until: float
    kept: int


class Budget:
    """What is left of the requests that the Hub allows, by kind ("api", "resolvers"). Safe between threads."""

    def __init__(self) -> None:
        self._left: dict[str, _Allowance] = {}
        self._refused_until = 0.0
        self._lock = threading.Lock()

    def note(self, reply: Reply) -> None:
        """Take in what an answer says of the allowance."""
        now = time.monotonic()
        limit = _LIMIT.search(reply.headers.get("ratelimit", ""))
        with self._lock:
            if limit:
                quota = _QUOTA.search(reply.headers.get("ratelimit-policy", ""))
                kept = int(quota[1]) // _SHARE if quota else _KEPT
                self._left[limit[1]] = _Allowance(int(limit[2]), now + int(limit[3]), kept)
            if reply.status == 429:
                after = seconds_to_wait(reply)
                self._refused_until = now + (_WAIT if after is None else after)

    def wait(self) -> float:
        """Return for how many seconds the Hub wants no request at all; 0 when it takes them."""
        with self._lock:
            return max(0.0, self._refused_until - time.monotonic())

    def check(self, endpoint: str) -> None:
        """Raise HubError (rate_limited) where what is left is for the run's own downloads. For looking around only."""
        now = time.monotonic()
        with self._lock:
            short = [it for it in self._left.values() if it.until > now and it.remaining <= it.kept]
        if short:
            least = min(short, key=lambda it: it.remaining)
            seconds = max(1, round(least.until - now))
            raise HubError(
                "rate_limited",
                f"Not asked: the last {least.remaining} requests are left for the run's own downloads",
                f"{endpoint} allows more in {seconds} s.",
                "Try again then; a login (hf auth login) has a higher limit than none.",
            )


def seconds_to_wait(reply: Reply) -> int | None:
    """Return for how many seconds a refusal says to wait: Retry-After: 30, or RateLimit: "api";r=0;t=30."""
    after = _AFTER.fullmatch(reply.headers.get("retry-after", ""))
    limit = _LIMIT.search(reply.headers.get("ratelimit", ""))
    return int(after[1]) if after else int(limit[3]) if limit else None
