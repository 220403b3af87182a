"""Losses and gradients that are no numbers, that stand still, or that run away."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import median

from kerneltui.runs.alert import Alert
from kerneltui.runs.health.window import Log, Window

_WATCHED = ("loss", "grad_norm")
# How many equal losses in a row are no chance, and how many zeros: losses are logged with many digits.
_EQUAL = 20
_ZEROS = 5
# A loss that has run away: so many blocks of log lines, and how far above the best and above the first of them.
_BLOCK = 8
_ABOVE_BEST = 2.0
_ABOVE_FIRST = 1.2
_LOOK_FOR_CAUSE = "Stop it; go on from a checkpoint before with a lower learning_rate, or with bf16 instead of fp16."


def find(window: Window) -> Iterator[Alert]:
    """Give what is wrong with the loss and the norm of the gradients."""
    yield from _not_finite(window)
    losses = window.values("loss")
    if not window.rewarded:  # GRPO's loss is zero by right where every sample is used once
        yield from _still(losses)
        yield from _diverged(window, losses)


def _not_finite(window: Window) -> Iterator[Alert]:
    if window.broken_weights:
        time, step = window.broken_weights
        yield Alert(
            id="not_finite", severity="block", since=time.isoformat(timespec="seconds"),
            text=f"the weights are no numbers (NaN) since step {step} or shortly before",
            why="A value of a trained weight was read back from the model.", next_step=_LOOK_FOR_CAUSE,
        )  # fmt: skip
        return
    for name in _WATCHED:
        odd = [log for log, value in window.values(name) if not math.isfinite(value)]
        if not odd:
            continue
        filtered = "" if name == "loss" else " The Trainer leaves a NaN out of the loss that it logs."
        yield Alert(
            id="not_finite", severity="block", since=_time(odd[0]),
            text=f"{name} is not finite since step {odd[0].step}: what is learned from here on may be lost",
            why=f"{len(odd)} of the last {len(window.values(name))} values of {name} are NaN or infinite.{filtered}",
            next_step=_LOOK_FOR_CAUSE,
        )  # fmt: skip
        return


def _still(losses: list[tuple[Log, float]]) -> Iterator[Alert]:
    zeros = losses[-_ZEROS:]
    if len(zeros) == _ZEROS and all(value == 0 for _, value in zeros):
        yield Alert(
            id="loss_zero", severity="block", since=_time(zeros[0][0]), text="the loss is exactly 0",
            why=f"The last {_ZEROS} values that were logged are 0.",
            next_step="Nothing is learned: mostly every label is masked (assistant_only_loss, completion_only_loss, "
            "a max_length shorter than the prompt). `kerneltui check` shows the data as the trainer sees it.",
        )  # fmt: skip
        return
    equal = losses[-_EQUAL:]
    if len(equal) == _EQUAL and len({value for _, value in equal}) == 1:
        yield Alert(
            id="loss_constant", severity="warn", since=_time(equal[0][0]),
            text=f"the loss does not change: {equal[0][1]:.6g} for {_EQUAL} log lines",
            why="Values of a real loss differ in their last digits.",
            next_step="Look whether anything is trained (learning_rate, frozen weights) and whether the data repeats.",
        )  # fmt: skip


def _diverged(window: Window, losses: list[tuple[Log, float]]) -> Iterator[Alert]:
    kept = [(log, value) for log, value in losses if math.isfinite(value)]
    blocks = [kept[start : start + _BLOCK] for start in range(len(kept) % _BLOCK, len(kept), _BLOCK)]
    if len(blocks) < 3:
        return
    levels = [median(value for _, value in block) for block in blocks]
    best, last = min(levels), levels[-1]
    if last > _ABOVE_BEST * best and last > _ABOVE_FIRST * levels[0] and levels[-2] > best > 0:
        yield Alert(
            id="diverged", severity="warn", since=_time(blocks[-1][0][0]),
            text=f"the loss runs away: {last:.3g}, after {best:.3g} at its best",
            why=f"The middle of its last {_BLOCK} values is more than twice the best, and above where it began.",
            next_step=_LOOK_FOR_CAUSE,
        )  # fmt: skip


def _time(log: Log) -> str:
    return log.time.isoformat(timespec="seconds")
