"""Trainers with rewards (GRPO, RLOO, …): rewards that teach nothing, a policy that runs away, answers cut short.

Source of the names: TRL 1.16 `trainer/grpo_trainer.py` and `rloo_trainer.py`, where they are logged.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from kerneltui.runs.alert import Alert
from kerneltui.runs.health.window import Window

# How many log lines in a row.
_LINES = 10
_NEARLY_ALL = 0.99
# A KL divergence above this, and so many times the one of the first lines, is another policy.
_KL = 1.0
_KL_TIMES = 10.0


def find(window: Window) -> Iterator[Alert]:
    """Give what is wrong with rewards and completions."""
    yield from _no_variance(window)
    yield from _runaway(window)
    yield from _cut(window)


def _no_variance(window: Window) -> Iterator[Alert]:
    spread, flat = window.finite("reward_std")[-_LINES:], window.finite("frac_reward_zero_std")[-_LINES:]
    same = len(spread) == _LINES and not any(spread)
    if same or (len(flat) == _LINES and min(flat) >= _NEARLY_ALL):
        yield Alert(
            id="reward_flat", severity="warn", since=_since(window, "reward_std"),
            text="all completions of a prompt get the same reward: nothing is learned",
            why=f"The rewards of a group have not differed in the last {_LINES} log lines.",
            next_step="Look at the reward function on some completions (log_completions: true); a higher temperature, "
            "or prompts that are neither too easy nor too hard.",
        )  # fmt: skip


def _runaway(window: Window) -> Iterator[Alert]:
    values = window.finite("kl")
    if len(values) < 2 * _LINES:
        return
    first, last = median(values[:_LINES]), median(values[-_LINES:])
    if last > max(_KL, _KL_TIMES * first):
        yield Alert(
            id="kl_runaway", severity="warn", since=_since(window, "kl"),
            text=f"the policy runs away from the model that it began with: KL {last:.3g}, {first:.2g} before",
            why=f"The middle of the last {_LINES} values against that of the first ones.",
            next_step="A larger beta or a lower learning_rate; look whether completions still read well.",
        )  # fmt: skip


def _cut(window: Window) -> Iterator[Alert]:
    values = window.finite("completions/clipped_ratio")[-_LINES:]
    if len(values) == _LINES and min(values) >= _NEARLY_ALL:
        yield Alert(
            id="completions_cut", severity="warn", since=_since(window, "completions/clipped_ratio"),
            text="every completion is cut off at max_completion_length",
            why=f"completions/clipped_ratio is {min(values):.2f} or more in the last {_LINES} log lines.",
            next_step="A longer max_completion_length; or the model does not write its end token: look at its chat "
            "template and eos_token.",
        )  # fmt: skip


def _since(window: Window, name: str) -> str | None:
    found = window.values(name)[-_LINES:]
    return found[0][0].time.isoformat(timespec="seconds") if found else None
