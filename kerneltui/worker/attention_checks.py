"""Holding an attention function against a float64 reference: what it gives, its gradients, and what it must not see.

An attention function here is any `Attend`; a check is the fields of `facts.proof.Check`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from .attention_cases import Case, Inputs, Result, borders, make_inputs, reference

Attend = Callable[[Case, Inputs], Tensor]
Check = dict[str, Any]

FACTOR = 1.5
"""How much further from the reference than the baseline something may be, before the floor is added."""

FLOORS = {torch.bfloat16: 2**-8, torch.float16: 2**-11, torch.float32: 1e-5}
"""What is added for each dtype: half of a half's last place; sums in another order for float32."""

# Without a baseline: so many floors.
_ALONE = 4
_WORDS = 300


class BrokenDeviceError(Exception):
    """The GPU's context is broken (an illegal memory access): nothing can be computed in this process any more."""


def try_case(attend: Attend, baseline: Attend | None, case: Case) -> list[Check]:
    """Return the checks of one case; of what failed, what it takes for the failure is found by plainer cases.

    Raises BrokenDeviceError.
    """
    checks = _judge(attend, baseline, case)
    failed = [check for check in checks if check["outcome"] == "failed"]
    if failed:
        for name, plainer in _plainer(case):
            passed = {it["name"] for it in _judge(attend, baseline, plainer, again=True) if it["outcome"] == "passed"}
            for check in failed:
                if check["name"] in passed:
                    check["only"].append(name)
    return checks


def _judge(attend: Attend, baseline: Attend | None, case: Case, *, again: bool = False) -> list[Check]:
    """Return the checks of a case; `again` leaves out what is only said of the first."""
    inputs, say = make_inputs(case), functools.partial(_check, case=case.describe())
    checks: list[Check] = []
    try:
        result = _run(attend, case, inputs, checks, say)
        if result is None:
            return checks
        if not _all_finite(case, result):
            checks.append(say("finite", "failed", f"{_not_finite(case, result)} is not finite"))
            return checks
        checks.append(say("finite"))
        truth = reference(case, inputs)
        beside = _baseline(baseline, case, inputs)
        checks += _compare(case, inputs, result, truth, beside, say)
        if not again:
            checks += _repeat(attend, case, inputs, result, say)
        if case.layout == "packed":
            checks.append(_borders(attend, case, inputs, say))
    except torch.OutOfMemoryError:
        checks.append(say("case", "skipped", "there was no memory for it on the card"))
    return checks


def _check(
    name: str, outcome: str = "passed", reason: str | None = None, *, case: str, **figures: float | None
) -> Check:
    known = {key: value for key, value in figures.items() if value is not None}
    return {"name": name, "case": case, "outcome": outcome, "reason": reason, "only": [], "figures": known}


Say = Callable[..., Check]


def _run(attend: Attend, case: Case, inputs: Inputs, checks: list[Check], say: Say) -> Result | None:
    """Return output and gradients, or None after adding the check that says why there are none."""
    inputs = inputs.fresh()
    try:
        output = attend(case, inputs)
        _synchronize(case)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a kernel raises is the result
        checks.append(say("forward", "failed", f"it raised {_words(error)}"))
        return None
    if output.shape != inputs.gradient.shape:
        checks.append(say("forward", "failed", f"its output is {tuple(output.shape)}"))
        return None
    if not output.requires_grad:
        checks.append(say("backward", "failed", "its output has no gradient: nothing before attention would learn"))
        return None
    try:
        found = torch.autograd.grad(output, list(inputs.leaves.values()), inputs.gradient, allow_unused=True)
        _synchronize(case)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - as above
        checks.append(say("backward", "failed", f"it raised {_words(error)}"))
        return None
    checks.append(say("backward"))
    return Result(output.detach(), dict(zip(inputs.leaves, found, strict=True)))


def _synchronize(case: Case) -> None:
    """Wait for the device, so that what fails there fails here."""
    if case.device != "cpu":
        torch.accelerator.synchronize()


def _words(error: Exception) -> str:
    """Return an exception in a line. Raises BrokenDeviceError where it says that the device can no longer be used."""
    text = f"{type(error).__name__}: {' '.join(str(error).split())}"[:_WORDS]
    if "illegal memory access" in text or "device-side assert" in text or type(error).__name__ == "AcceleratorError":
        raise BrokenDeviceError(text) from error
    return text


def _of_tokens(case: Case, output: Tensor) -> Tensor:
    """Return the output without the places of padding."""
    return output[(case.documents() >= 0).to(output.device)]


def _all_finite(case: Case, result: Result) -> bool:
    found = [gradient for gradient in result.gradients.values() if gradient is not None]
    return all(bool(it.isfinite().all()) for it in (_of_tokens(case, result.output), *found))


def _not_finite(case: Case, result: Result) -> str:
    names = [] if bool(_of_tokens(case, result.output).isfinite().all()) else ["the output"]
    bad = [name for name, it in result.gradients.items() if it is not None and not bool(it.isfinite().all())]
    return ", ".join([*names, *(f"the gradient of {name}" for name in bad)])


def _baseline(baseline: Attend | None, case: Case, inputs: Inputs) -> Result | None:
    """Return what the baseline gives, None where it cannot compute this."""
    if baseline is None:
        return None
    result = _run(baseline, case, inputs, [], functools.partial(_check, case=""))
    return result if result is not None and _all_finite(case, result) else None


def error_of(found: Tensor, truth: Tensor) -> float:
    """Return how far `found` is from `truth`, in the norm of `truth`."""
    size = float(truth.norm())
    return float((found.double() - truth).norm()) / (size or 1.0)


def _compare(
    case: Case, inputs: Inputs, result: Result, truth: Result, beside: Result | None, say: Say
) -> Iterator[Check]:
    output = _of_tokens(case, result.output)
    base = None if beside is None else error_of(_of_tokens(case, beside.output), _of_tokens(case, truth.output))
    error, limit = error_of(output, _of_tokens(case, truth.output)), limit_of(case, base)
    wrong = error > limit
    reason = f"{error:.2g} away from the reference" + _as_if(case, inputs, output, limit) if wrong else None
    yield say("forward", "failed" if wrong else "passed", reason, error=error, baseline=base, limit=limit)
    for name, gradient in result.gradients.items():
        right = truth.gradients[name]
        assert right is not None
        other = beside.gradients[name] if beside else None
        base = None if other is None else error_of(other, right)
        limit = limit_of(case, base)
        if gradient is None:
            yield say(f"gradient.{name}", "failed", "there is none", baseline=base)
            continue
        error = error_of(gradient, right)
        wrong = error > limit
        reason = f"{error:.2g} away from the reference{_times(gradient, right, limit)}" if wrong else None
        yield say(f"gradient.{name}", "failed" if wrong else "passed", reason, error=error, baseline=base, limit=limit)


def limit_of(case: Case, baseline: float | None) -> float:
    """Return how far from the reference something may be, where the baseline is `baseline` away."""
    floor = FLOORS[case.dtype]
    return _ALONE * floor if baseline is None else FACTOR * baseline + floor


def _as_if(case: Case, inputs: Inputs, output: Tensor, limit: float) -> str:
    """Return what seems to be left out: the output is right for a case without it."""
    without = {
        "window": replace(case, shape=replace(case.shape, window=None)) if case.shape.window else None,
        "softcap": replace(case, shape=replace(case.shape, softcap=None)) if case.shape.softcap else None,
        "sinks": replace(case, shape=replace(case.shape, sinks=False)) if case.shape.sinks else None,
        "causal mask": replace(case, shape=replace(case.shape, causal=False)) if case.shape.causal else None,
        "borders between sequences": replace(case, layout="dense", lengths=(case.length,))
        if case.layout == "packed"
        else None,
    }
    for name, other in without.items():
        if other is not None and error_of(output, _of_tokens(case, reference(other, inputs).output)) <= limit:
            return f": it is right for no {name}, so that is ignored"
    return ""


def _times(found: Tensor, truth: Tensor, limit: float) -> str:
    """Return by what factor a gradient is wrong, where a factor is all that is wrong with it."""
    exact = found.double()
    factor = float((exact * truth).sum() / (truth * truth).sum())
    if factor and error_of(exact / factor, truth) <= limit:
        return f": it is the right one times {factor:.3g}"
    return ""


def _repeat(attend: Attend, case: Case, inputs: Inputs, result: Result, say: Say) -> Iterator[Check]:
    """Say how much a second run differs; a backward that adds up in any order is no fault."""
    again = _run(attend, case, inputs, [], say)
    if again is None:
        yield say("repeat", "failed", "the second run with the same input failed")
        return
    differences = [error_of(again.output, result.output.double())]
    for name, gradient in result.gradients.items():
        other = again.gradients[name]
        if gradient is not None and other is not None:
            differences.append(error_of(other, gradient.double()))
    yield say("repeat", forward=differences[0], gradients=max(differences[1:], default=0.0))


def _borders(attend: Attend, case: Case, inputs: Inputs, say: Say) -> Check:
    """Say whether the last packed sequence sees anything of those before it, forward and backward."""
    start, _ = borders(case)[-1]
    changed = inputs.fresh()
    with torch.no_grad():
        for leaf in (changed.k, changed.v):
            leaf[:, :, :start] = -leaf[:, :, :start]
    alone = replace(inputs.fresh(), gradient=inputs.gradient.clone())
    alone.gradient[:, :start] = 0
    before, after = attend(case, alone), attend(case, changed)
    last = before[:, start:].detach()
    forward = error_of(after[:, start:].detach(), last.double())
    found = torch.autograd.grad(before, [alone.k, alone.v], alone.gradient)
    backward = max(float(it[:, :, :start].double().norm() / it.double().norm()) for it in found)
    leaks = forward > FLOORS[case.dtype] or backward > FLOORS[case.dtype]
    reason = "a packed sequence sees those before it" if leaks else None
    return say("borders", "failed" if leaks else "passed", reason, forward=forward, backward=backward)


def _plainer(case: Case) -> Iterator[tuple[str, Case]]:
    """Give the case without each of its features, with the feature's name."""
    shape = case.shape
    if shape.kv_heads != shape.heads:
        yield "grouped heads", replace(case, shape=replace(shape, kv_heads=shape.heads))
    if shape.window is not None:
        yield "window", replace(case, shape=replace(shape, window=None))
    if shape.softcap is not None:
        yield "softcap", replace(case, shape=replace(shape, softcap=None))
    if shape.sinks:
        yield "sinks", replace(case, shape=replace(shape, sinks=False))
    if shape.head_dim != 64:
        yield f"head dimension {shape.head_dim}", replace(case, shape=replace(shape, head_dim=64, value_dim=None))
    if case.dtype != torch.float32:
        yield str(case.dtype).removeprefix("torch."), replace(case, dtype=torch.float32)
    if any(length % 2 for length in case.lengths):
        yield "odd lengths", replace(case, lengths=tuple(-(-length // 64) * 64 for length in case.lengths))
    if case.layout != "dense":
        yield f"{case.layout} rows", replace(case, layout="dense", lengths=(case.length,))
