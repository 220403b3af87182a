"""Errors of TRL's own configuration classes as findings, with legal values where they can be computed."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable

from kerneltui.advice.finding import Finding, Fix
from kerneltui.advice.situation import Situation
from kerneltui.plan.settings import ConfigError
from kerneltui.text import plain

_GENERATION = re.compile(r"generation_batch_size \(\d+\) must be divisible by num_generations\s+\((\d+)\)")
_GLOBAL = re.compile(r"generation_batch_size \((\d+)\) must be divisible by the global batch size\s+\((\d+)\)")
_EVALUATION = re.compile(r"global eval batch size \((\d+) \* (\d+)\) must be .* for evaluation \((\d+)\)", re.DOTALL)


def refused(situation: Situation) -> list[Finding]:
    """Return what the installed TRL's configuration classes raise, each message once."""
    errors = {error.message: error for error in situation.settings.errors}
    return [_finding(situation, error) for error in errors.values()]


def _finding(situation: Situation, error: ConfigError) -> Finding:
    message = plain(error.message).strip() or error.type
    title, _, rest = message.partition("\n")
    return Finding(
        id=f"configuration.{error.field or error.type}",
        severity="block",
        title=title,
        why=rest.strip() or f"TRL refuses this configuration ({error.type}) before it loads anything.",
        origin="asked",
        source=situation.cite_answer("trl", f"the configuration class of {situation.plan.trainer}"),
        fixes=fixes_for(situation, message),
    )


def fixes_for(situation: Situation, message: str) -> tuple[Fix, ...]:
    """Return what mends the refusal that a message of TRL words, the best first; nothing where that is not known."""
    if found := _GENERATION.search(message):
        return _whole_groups(situation, int(found[1]))
    if found := _GLOBAL.search(message):
        return (_set("generation_batch_size", _nearest_multiple(int(found[1]), int(found[2]))),)
    if found := _EVALUATION.search(message):
        return _whole_evaluation_groups(int(found[1]), int(found[2]), int(found[3]))
    if "fp16 and bf16" in message:
        return (_remove("fp16"), _remove("bf16"))
    if "8 bit and 4 bit" in message:
        return (_remove("load_in_8bit"), _remove("load_in_4bit"))
    return ()


def _whole_groups(situation: Situation, generations: int) -> tuple[Fix, ...]:
    """Return the nearest values with which the batch of one generation holds whole groups of `generations`."""
    values = situation.settings.values
    field = "steps_per_generation" if values.get("steps_per_generation") else "gradient_accumulation_steps"
    batch, steps = values.get("per_device_train_batch_size"), values.get(field)
    explicit, processes = values.get("generation_batch_size"), situation.processes
    numbers = (batch, steps, generations, processes)
    if not all(isinstance(number, int) and number > 0 for number in numbers):
        return ()
    assert isinstance(batch, int) and isinstance(steps, int)
    if isinstance(explicit, int):
        legal = _nearest_multiple(explicit, math.lcm(generations, batch * processes))
        groups = _divisor_fix("num_generations", explicit, generations)
        return (_set("generation_batch_size", legal), *groups)
    return (
        _set(field, _nearest_multiple(steps, generations // math.gcd(generations, batch * processes))),
        _set(
            "per_device_train_batch_size",
            _nearest_multiple(batch, generations // math.gcd(generations, steps * processes)),
        ),
        *_divisor_fix("num_generations", batch * processes * steps, generations),
    )


def _whole_evaluation_groups(batch: int, processes: int, generations: int) -> tuple[Fix, ...]:
    if min(batch, processes, generations) < 1:
        return ()
    legal = _nearest_multiple(batch, generations // math.gcd(generations, processes))
    groups = _divisor_fix("num_generations_eval", batch * processes, generations)
    return (_set("per_device_eval_batch_size", legal), *groups)


def _nearest_multiple(value: int, unit: int) -> int:
    """Return the multiple of `unit` nearest to `value`, at least one; of two the larger."""
    below = value // unit * unit
    above = below + unit
    return below if below and value - below < above - value else above


def _divisor_fix(field: str, total: int, wanted: int) -> tuple[Fix, ...]:
    """Return the fix to the number of generations nearest to `wanted` that divides `total`; it takes two to compare."""
    divisors: Iterable[int] = (number for number in range(2, min(total, 2 * wanted) + 1) if total % number == 0)
    best = min(divisors, key=lambda number: abs(number - wanted), default=None)
    return (_set(field, best),) if best else ()


def _set(field: str, value: int) -> Fix:
    return Fix(label=f"Set {field} to {value}", changes={field: value})


def _remove(field: str) -> Fix:
    return Fix(label=f"Remove {field}", changes={field: None})


RULES: tuple[Callable[[Situation], list[Finding]], ...] = (refused,)
