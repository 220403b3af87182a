"""GPUs that are lost, slowed down, too hot, broken, or that wait for the CPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean

from kerneltui.facts.gpu import GpuSample
from kerneltui.runs.alert import Alert
from kerneltui.runs.health.window import MachineSample, Window, by_gpu

# Seconds over which a GPU must be slow, and idle, before that is said; and in what part of the samples.
_SLOW = 60.0
_IDLE = 180.0
_MOST = 0.5
_IDLE_USE = 35.0
# Of the reasons for lowered clocks (facts.nvml_values) those that are no matter of course: a card at its power limit
# is at work.
_GRAVE = ("thermal", "hardware slowdown", "power brake", "reliability")
# Samples in a row without an answer.
_LOST = 3


def find(window: Window) -> Iterator[Alert]:
    """Give what is wrong with the run's GPUs."""
    for name, cards in by_gpu(window.samples):
        yield from _lost(name, cards, window)
        yield from _errors(name, cards)
    for name, cards in by_gpu(window.last(_SLOW)):
        yield from _slowed(name, cards, window)
    if window.stepping and not window.rewarded and window.paces:
        yield from _idle(window.last(_IDLE))


def _lost(name: str, cards: list[GpuSample], window: Window) -> Iterator[Alert]:
    last = cards[-_LOST:]
    if len(last) == _LOST and all("gpu" in card.unavailable for card in last):
        yield Alert(
            id=f"gpu_lost:{name}", severity="block", since=_time(window.samples[-1]), text=f"{name} does not answer",
            why=f"NVML: {last[-1].unavailable['gpu']}",
            next_step="The kernel's log (dmesg, lines with Xid) says why; the card may need a reset or a reboot. "
            "Stop the run with --now, and resume it on another GPU.",
        )  # fmt: skip


def _errors(name: str, cards: list[GpuSample]) -> Iterator[Alert]:
    counts = [card.ecc_errors for card in cards if card.ecc_errors is not None]
    if counts and counts[-1] > counts[0]:
        yield Alert(
            id=f"ecc:{name}", severity="block", text=f"{name} has new memory errors that could not be corrected",
            why=f"ECC counted {counts[0]} before and {counts[-1]} now.",
            next_step="Do not trust what is learned from here on. Stop it, and resume from an earlier checkpoint on "
            "another card; this one must be reset by who runs the machine.",
        )  # fmt: skip


def _slowed(name: str, cards: list[GpuSample], window: Window) -> Iterator[Alert]:
    told = [card for card in cards if card.throttle is not None]
    grave = [reason for card in told for reason in card.throttle or () if any(word in reason for word in _GRAVE)]
    slowed = [card for card in told if any(word in reason for reason in card.throttle or () for word in _GRAVE)]
    temperature = next((card.temperature for card in reversed(cards) if card.temperature is not None), None)
    limit = window.temperature_limits.get(cards[-1].uuid or "")
    if told and len(slowed) > _MOST * len(told):
        heat = f", at {temperature} °C" if temperature is not None else ""
        hot = "thermal" in grave[-1]
        yield Alert(
            id=f"throttled:{name}", severity="warn", text=f"{name} is slowed down: {grave[-1]}{heat}",
            why=f"In {len(slowed)} of the last {len(told)} samples.",
            next_step="Look at the cooling; who runs the machine may lower its power limit (nvidia-smi -pl)."
            if hot else "Look at the power supply of the card: who runs the machine can.",
        )  # fmt: skip
    elif limit and temperature is not None and temperature >= limit:
        yield Alert(
            id=f"hot:{name}", severity="warn", text=f"{name} is too hot: {temperature} °C",
            why=f"From {limit} °C on its clocks are lowered.", next_step="Look at the cooling.",
        )  # fmt: skip


def _idle(samples: Sequence[MachineSample]) -> Iterator[Alert]:
    told = [[card.utilization for card in cards if card.utilization is not None] for _, cards in by_gpu(samples)]
    uses = [fmean(found) for found in told if found]
    if not uses or max(uses) >= _IDLE_USE:
        return
    cpus = [sample.cpu for sample in samples if sample.cpu is not None]
    busy = f" while the CPU is {fmean(cpus):.0f} % busy" if cpus else ""
    yield Alert(
        id="gpu_idle", severity="warn", since=_time(samples[0]),
        text=f"the GPU waits: {max(uses):.0f} % use over the last {_IDLE / 60:.0f} minutes{busy}",
        why="It takes steps, but computes for a small part of the time: it waits for data, or the steps are small.",
        next_step="More dataloader_num_workers, data prepared once, a larger batch or packing.",
    )  # fmt: skip


def _time(sample: MachineSample) -> str:
    return sample.time.isoformat(timespec="seconds")
