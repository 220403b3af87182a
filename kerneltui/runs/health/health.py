"""Gathers what the rules look at, line by line as a run records it, and says each alert once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from kerneltui.facts.gpu import GpuSample
from kerneltui.facts.server import Gpu
from kerneltui.runs.alert import Alert
from kerneltui.runs.health import disk, gpus, loss, memory, pace, rewards
from kerneltui.runs.health.window import Disk, Log, MachineSample, Pace, Window
from kerneltui.runs.machine import Sample
from kerneltui.runs.training import number, parse_time

Rule = Callable[[Window], Iterator[Alert]]
RULES: tuple[Rule, ...] = (loss.find, pace.find, gpus.find, memory.find, disk.find, rewards.find)

# How much is kept: of log and progress lines, and of samples (one every two seconds).
_LOGS = 200
_PACES = 60
_SAMPLES = 360
# What has passed may be said again when it comes back after so long.
_AGAIN = timedelta(minutes=30)


def judge(window: Window) -> list[Alert]:
    """Return all that the rules find, the grave ones first."""
    found = [alert for rule in RULES for alert in rule(window)]
    return sorted(found, key=lambda alert: alert.severity != "block")


class Health:
    """The health of one attempt. `chosen` are the run's GPUs by index (None: all), `cards` what is known of them.

    Alerts among the events count as said: an earlier supervisor may have written them.
    """

    def __init__(self, cards: Iterable[Gpu] = (), chosen: Iterable[int] | None = None) -> None:
        cards = tuple(cards)
        self._chosen = None if chosen is None else set(chosen)
        self._memory = min((card.memory_total for card in cards if card.memory_total), default=None)
        self._limits = {card.uuid: card.temperature_limit for card in cards if card.uuid and card.temperature_limit}
        self._logs: deque[Log] = deque(maxlen=_LOGS)
        self._paces: deque[Pace] = deque(maxlen=_PACES)
        self._samples: deque[MachineSample] = deque(maxlen=_SAMPLES)
        self._settings: Mapping[str, Any] = {}
        self._stepping: datetime | None = None
        self._heard: datetime | None = None
        self._broken: tuple[datetime, int] | None = None
        # Those that hold now, and all that the rules have ever found: an alert about what loaded never passes.
        self._present: set[str] = set()
        self._ours: set[str] = set()
        self._said: dict[str, datetime] = {}
        self.save_steps: int | None = None
        self.step: int | None = None

    def add_metrics(self, line: Mapping[str, Any]) -> None:
        """Take in a line of `metrics.jsonl`."""
        time, step, values = parse_time(line.get("time")), line.get("step"), line.get("values")
        if time is None or not isinstance(step, int):
            return
        self._hear(time)
        self.step = step
        if isinstance(values, dict):
            found = {name: value for name, raw in values.items() if (value := number(raw)) is not None}
            self._logs.append(Log(time, step, found))
        elif (seconds := number(line.get("seconds_per_step"))) is not None:
            self._paces.append(Pace(time, step, seconds))

    def add_event(self, line: Mapping[str, Any]) -> None:
        """Take in a line of `events.jsonl`."""
        time, step = parse_time(line.get("time")), line.get("step")
        if time is None:
            return
        match line.get("event"):
            case "alert":
                self._present.add(str(line.get("id")))
                self._said[str(line.get("id"))] = time
                return
            case "alert_over":
                self._present.discard(str(line.get("id")))
                return
            case "train_begin":
                self._stepping = time
                settings, every = line.get("settings"), line.get("save_steps")
                self._settings = settings if isinstance(settings, dict) else {}
                self.save_steps = every if isinstance(every, int) else None
                self.step = step if isinstance(step, int) else None
            case "train_end":
                self._stepping = None
            case "not_finite" if isinstance(step, int):
                self._broken = (time, step)
        self._hear(time)

    def add_sample(self, time: datetime, sample: Sample) -> None:
        """Take in a sample of the machine."""
        ours = tuple(gpu for gpu in sample.gpus if self._is_ours(gpu))
        self._samples.append(MachineSample(time, ours, sample.memory_used, sample.memory_total, sample.cpu))

    def look(self, now: datetime, *, printed: datetime | None, room: Disk | None) -> tuple[list[Alert], list[str]]:
        """Return the alerts that are new, and the ids of those that have passed.

        `printed` is when the log last grew.
        """
        heard = max([time for time in (self._heard, printed) if time], default=None)
        window = Window(
            now=now, logs=tuple(self._logs), paces=tuple(self._paces), samples=tuple(self._samples),
            stepping=self._stepping, heard=heard, settings=self._settings, memory_total=self._memory,
            temperature_limits=self._limits, disk=room, broken_weights=self._broken,
        )  # fmt: skip
        found = {alert.id: alert for alert in judge(window)}
        over = sorted(id for id in self._present if id not in found and id in self._ours)
        new = [alert for id, alert in found.items() if id not in self._present and self._due(id, now)]
        self._present = (self._present - set(over)) | {alert.id for alert in new}
        self._ours |= set(found)
        self._said |= {alert.id: now for alert in new}
        return new, over

    @property
    def steps_to_checkpoint(self) -> int | None:
        """The steps to the next regular checkpoint, None where none is known to come."""
        return None if not self.save_steps or self.step is None else self.save_steps - self.step % self.save_steps

    def _due(self, id: str, now: datetime) -> bool:
        return id not in self._said or now - self._said[id] > _AGAIN

    def _is_ours(self, gpu: GpuSample) -> bool:
        return self._chosen is None or gpu.index is None or gpu.index in self._chosen

    def _hear(self, time: datetime) -> None:
        self._heard = max(filter(None, (self._heard, time)))
