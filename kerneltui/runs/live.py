"""A run as it is now, for the live pane: reads the record in bounded slices and gives frozen snapshots of it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kerneltui.errors import KerneltuiError
from kerneltui.runs.contact import is_here, lost_since
from kerneltui.runs.control import pending, watch_over
from kerneltui.runs.directory import ACTIVE, RunDirectory, RunRecord, State
from kerneltui.runs.live_view import AttentionView, LiveView
from kerneltui.runs.loaded import alerts_of
from kerneltui.runs.samples import Samples
from kerneltui.runs.tail import JsonTail
from kerneltui.runs.training import Loaded, Training, parse_time
from kerneltui.text import plain_line

# How much of each file one `poll` reads, and how much of the samples of an old run is read at all. Bytes.
_SLICE = 1 << 20
_SAMPLES = 1 << 18
# A training process is called silent after so many seconds, and after so many times the length of a step.
_SILENCE = 60.0
_SILENT_STEPS = 10.0


class LiveRun:
    """Reads one run again and again. Not for several threads at once; what `poll` gave may be read by any."""

    def __init__(self, run: RunDirectory) -> None:
        self.run = run
        self._record: RunRecord | None = None
        self._training = Training()
        self._samples: Samples | None = None
        self._metrics, self._events = JsonTail(run.metrics), JsonTail(run.events)
        self._system = JsonTail(run.system, from_end=_SAMPLES)

    def poll(self, *, now: datetime | None = None) -> LiveView:
        """Read what was added, at most some megabytes, and return the run as it is now. Raises nothing."""
        now = now or datetime.now().astimezone()
        try:
            # The state is read first: what was written before a run's end is then read below.
            state = watch_over(self.run)
            record = self._record = self._record or self.run.read_run()
        except KerneltuiError as error:
            return LiveView(name=self.run.name, path=self.run.path, now=now, problem=str(error))
        samples = self._samples = self._samples or Samples(record.server.gpus, record.plan.launch.gpus)
        for event in self._events.read(_SLICE):
            self._training.add_event(event)
        for line in self._metrics.read(_SLICE):
            self._training.add_metrics(line)
        for sample in self._system.read(_SLICE):
            samples.add(sample)
        return self._view(now, record, state, samples)

    def _view(self, now: datetime, record: RunRecord, state: State, samples: Samples) -> LiveView:
        training = self._training
        current = training.attempt == state.attempt
        metrics, evaluations = training.series()
        step, total = (training.step, training.total) if current else (None, None)
        active = state.phase in ACTIVE
        pace = training.seconds_per_step() if current else None
        stepping = active and "train_end" not in training.milestones
        stage, since = what_it_does(state, training if current else Training(), now) if active else (None, None)
        return LiveView(
            name=self.run.name,
            path=self.run.path,
            now=now,
            trainer=plain_line(record.plan.trainer),
            model=plain_line(record.will_run.model) if record.will_run.model else None,
            attention=attention_view(record, *((training.begin, training.kernels) if current else (None, ()))),
            phase=state.phase,
            reason=plain_line(state.reason) if state.reason else None,
            way_out=plain_line(state.way_out) if state.way_out else None,
            exit_code=state.exit_code,
            attempt=state.attempt,
            started=parse_time(state.started),
            ended=parse_time(state.ended),
            stage=stage,
            stage_since=since,
            step=step,
            total=total,
            epoch=training.epoch,
            seconds_per_step=pace,
            seconds_left=_seconds_left(step, total, pace, training.last_progress(), now) if stepping else None,
            tokens_per_second=training.tokens_per_second() if active and current else None,
            next_checkpoint=steps_to_checkpoint(step, total, training.save_steps) if stepping else None,
            last_checkpoint=training.checkpoint,
            silent=self._silence(state, pace, now),
            pending=pending(self.run) if active else None,
            host=None if is_here(state) else plain_line(state.hostname),
            lost_since=lost_since(self.run, state),
            metrics=metrics,
            evaluations=evaluations,
            summary=dict(training.summary),
            gpus=samples.gpus(),
            machine=samples.host,
            notices=tuple(training.notices),
            log=self.run.output(state.attempt),
            output_dir=training.output_dir or record.output_dir,
            behind=self._metrics.behind or self._events.behind or self._system.behind,
        )

    def _silence(self, state: State, pace: float | None, now: datetime) -> float | None:
        """Return for how long the training process has neither recorded nor printed anything, where that is long."""
        heard = [time for time in (self._training.heard, parse_time(state.started)) if time]
        with contextlib.suppress(OSError):
            heard.append(datetime.fromtimestamp(self.run.output(state.attempt).stat().st_mtime).astimezone())
        if state.phase != "running" or not heard or self._metrics.behind:
            return None
        silent = (now - max(heard)).total_seconds()
        return silent if silent > max(_SILENCE, _SILENT_STEPS * (pace or 0)) else None


def what_it_does(state: State, training: Training, now: datetime) -> tuple[str | None, datetime | None]:
    """Return what an active run does when it does not step, and since when; (None, None) while it steps."""
    done, started = training.milestones, parse_time(state.started)
    if state.phase == "starting":
        return "starting its supervisor", parse_time(state.updated)
    if "train_end" in done:
        return "training is done; the model is being saved", done["train_end"]
    if training.last_progress():
        return None, None
    if "train_begin" in done:
        return "taking its first step", done["train_begin"]
    if "process_start" in done:
        return "importing packages, loading model and data", done["process_start"]
    return "starting the training process", started or now


def attention_view(record: RunRecord, begin: Mapping[str, Any] | None, kernels: tuple[Loaded, ...]) -> AttentionView:
    """Return what was promised, what the `train_begin` event says is in use, and where the two differ."""
    used = (begin or {}).get("attention")
    return AttentionView(
        promised=plain_line(record.will_run.attention.implementation),
        used=plain_line(used) if isinstance(used, str) else None,
        alerts=tuple(alerts_of(record, dict(begin))) if begin else (),
        kernels=kernels,
    )


def steps_to_checkpoint(step: int | None, total: int | None, every: int | None) -> int | None:
    """Return the steps to the next regular checkpoint; the last step always makes one. None where none comes."""
    if step is None or not every or every < 1:
        return None
    due = every - step % every
    return due if total is None else min(due, total - step) or None


def _seconds_left(
    step: int | None, total: int | None, pace: float | None, last: datetime | None, now: datetime
) -> float | None:
    if step is None or not total or pace is None:
        return None
    passed = (now - last).total_seconds() if last else 0.0
    return max(0.0, (total - step) * pace - min(max(passed, 0.0), pace))
