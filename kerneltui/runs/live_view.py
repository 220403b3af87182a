"""What the live pane shows of a run, as frozen snapshots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from kerneltui.runs.alert import Alert
from kerneltui.runs.directory import ACTIVE, Phase, Request
from kerneltui.runs.samples import GpuView, HostView
from kerneltui.runs.series import Points
from kerneltui.runs.training import Checkpoint, Loaded, Notice


@dataclass(frozen=True, kw_only=True)
class AttentionView:
    """The attention: `promised` before launch, `used` as read back from the model, None before training begins.

    `alerts` say where the two differ, by name, repository, commit or variant.
    """

    promised: str | None = None
    used: str | None = None
    alerts: tuple[Alert, ...] = ()
    kernels: tuple[Loaded, ...] = ()


@dataclass(frozen=True, kw_only=True)
class LiveView:
    """Everything that the live pane shows, at the moment `now`. Times have a zone; spans are in seconds.

    `problem` says why the record cannot be read. `stage` says what an active run does before its first step and after
    its last, `stage_since` since when; None while it steps. `next_checkpoint` is in steps. `silent` is how long an
    active run has written nothing, where that is unusually long; `lost_since` since when nothing was heard of one that
    is not looked after from here. `host` is the machine that it is on, None for this one. `behind` tells that more is
    at hand to be read.
    """

    name: str
    path: Path
    now: datetime
    problem: str | None = None
    trainer: str | None = None
    model: str | None = None
    attention: AttentionView = field(default_factory=AttentionView)
    phase: Phase | None = None
    reason: str | None = None
    way_out: str | None = None
    exit_code: int | None = None
    attempt: int = 1
    started: datetime | None = None
    ended: datetime | None = None
    stage: str | None = None
    stage_since: datetime | None = None
    step: int | None = None
    total: int | None = None
    epoch: float | None = None
    seconds_per_step: float | None = None
    seconds_left: float | None = None
    tokens_per_second: float | None = None
    next_checkpoint: int | None = None
    last_checkpoint: Checkpoint | None = None
    silent: float | None = None
    pending: Request | None = None
    host: str | None = None
    lost_since: datetime | None = None
    metrics: Mapping[str, Points] = field(default_factory=dict)
    evaluations: Mapping[str, Points] = field(default_factory=dict)
    summary: Mapping[str, float] = field(default_factory=dict)
    gpus: tuple[GpuView, ...] = ()
    machine: HostView = field(default_factory=HostView)
    notices: tuple[Notice, ...] = ()
    log: Path | None = None
    output_dir: str | None = None
    behind: bool = False

    @property
    def active(self) -> bool:
        """Whether the run starts or runs."""
        return self.phase in ACTIVE

    @property
    def resumable(self) -> bool:
        """Whether the run has ended before its last step, and has written a checkpoint."""
        return self.phase not in (None, *ACTIVE, "finished") and self.last_checkpoint is not None

    @property
    def seconds_to_checkpoint(self) -> float | None:
        """How long it takes to the next regular checkpoint, None where none is due or the speed is not known."""
        if self.next_checkpoint is None or self.seconds_per_step is None:
            return None
        return self.next_checkpoint * self.seconds_per_step
