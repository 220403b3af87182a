"""How long an attention function takes, forward and backward, by the device's own clock."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch

from .attention_cases import Case, make_inputs
from .attention_checks import Attend

_WARM = 2
# A measurement ends after so many passes, or after so many seconds.
_PASSES, _SECONDS = 10, 0.3


def measure(attend: Attend, case: Case) -> dict[str, float]:
    """Return the median milliseconds of a "forward" and a "backward" pass. Raises whatever the function raises."""
    inputs = make_inputs(case)
    leaves = list(inputs.leaves.values())
    forward, backward = [], []
    began = time.perf_counter()
    for number in range(_WARM + _PASSES):
        clock = _clock(case.device)
        output = attend(case, inputs)
        middle = clock()
        torch.autograd.grad(output, leaves, inputs.gradient, allow_unused=True)
        whole = clock()
        if number >= _WARM:
            first, both = middle(), whole()
            forward.append(first)
            backward.append(both - first)
            if time.perf_counter() - began > _SECONDS:
                break
    return {"forward": statistics.median(forward), "backward": statistics.median(backward)}


Reading = Callable[[], float]


def _clock(device: str) -> Callable[[], Reading]:
    """Start a clock and return what marks a moment; a moment's reading is the milliseconds since the start."""
    if device == "cpu":
        start = time.perf_counter()

        def mark() -> Reading:
            passed = 1000 * (time.perf_counter() - start)
            return lambda: passed

        return mark
    first = torch.cuda.Event(enable_timing=True)
    first.record()

    def event() -> Reading:
        moment = torch.cuda.Event(enable_timing=True)
        moment.record()

        def read() -> float:
            moment.synchronize()
            return float(first.elapsed_time(moment))

        return read

    return event
