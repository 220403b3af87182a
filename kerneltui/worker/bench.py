"""A point of a benchmark: the installed TRL script on random weights and rows of full length, and its steps timed.

A fresh process for each point, so that nothing of the one before (an allocator's blocks, a patched class) is left.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from typing import Any

from .protocol import progress, serve


def point(trainer: str, arguments: list[str], warmup: int, steps: int, layers: int | None = None) -> dict[str, Any]:
    """Return what `Stopwatch.report` tells of training with the script's `arguments`, and "ready" in seconds.

    `layers` leaves the model only its first ones. Raises what training raises.
    """
    progress("importing torch and TRL")
    ready = _time_loading()
    import torch

    from .random_training import train
    from .stopwatch import Stopwatch

    # The same weights and rows for all, so that what they compute can be set side by side.
    random.seed(0)
    torch.manual_seed(0)
    watch = Stopwatch(warmup, steps)
    instead = {"max_steps": warmup + steps, "logging_strategy": "steps", "logging_steps": max(1, warmup)}
    progress("training")
    try:
        train(trainer, arguments, instead, watch.install, layers=layers)
    except Stopwatch.Enough:
        return {**watch.report(), "ready": sum(ready) if ready else None}
    raise RuntimeError("training did not begin")


def _time_loading() -> list[float]:
    """Put into the list that is returned how many seconds each loading of a Hub kernel takes.

    Before transformers is imported, which keeps the function that it finds.
    """
    seconds: list[float] = []
    try:
        import kernels
    except ImportError:  # then none is loaded
        return seconds
    load = kernels.get_kernel

    def timed(*args: Any, **kwargs: Any) -> Any:
        began = time.perf_counter()
        try:
            return load(*args, **kwargs)
        finally:
            seconds.append(time.perf_counter() - began)

    kernels.get_kernel = timed
    return seconds


def main() -> None:
    """Serve the question of `kerneltui.bench`."""
    os.environ.setdefault("HF_HUB_USER_AGENT_ORIGIN", "kerneltui")
    handlers: dict[str, Callable[..., Any]] = {"bench.point": point}
    serve(handlers)
