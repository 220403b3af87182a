"""How long a run has held its GPUs, over all its attempts."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from kerneltui.runs.training import parse_time


def gpu_hours(events: Iterable[dict[str, Any]], cards: int, *, now: datetime | None = None) -> float | None:
    """Return the hours of all attempts times their GPUs; None for a run on the CPU, or where no attempt has trained.

    An attempt that has not ended counts until `now`. It had as many GPUs as processes, at most the server's `cards`.
    """
    begun: dict[int, datetime] = {}
    seconds: dict[int, float] = {}
    used: dict[int, int] = {}
    for event in events:
        attempt, time = event.get("attempt"), parse_time(event.get("time"))
        if not isinstance(attempt, int) or time is None:
            continue
        match event.get("event"):
            case "run_begin":
                begun.setdefault(attempt, time)
            case "train_begin" if str(event.get("device")).startswith("cuda"):
                ranks = event.get("world_size")
                used[attempt] = min(ranks if isinstance(ranks, int) else 1, max(1, cards))
            case "run_end" if attempt in begun:
                seconds[attempt] = (time - begun[attempt]).total_seconds()
    if not used:
        return None
    moment = now or datetime.now().astimezone()
    spans = {attempt: seconds.get(attempt, (moment - start).total_seconds()) for attempt, start in begun.items()}
    return sum(max(0.0, span) * used.get(attempt, max(used.values())) for attempt, span in spans.items()) / 3600
