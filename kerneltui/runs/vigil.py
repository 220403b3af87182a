"""The supervisor's watch over the health of a run: reads on, judges now and then, and writes what is new."""

from __future__ import annotations

import contextlib
import shutil
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import psutil

from kerneltui.errors import KerneltuiError
from kerneltui.runs.alert import Alert
from kerneltui.runs.checkpoints import size_of
from kerneltui.runs.directory import RunDirectory, RunRecord
from kerneltui.runs.health.health import Health
from kerneltui.runs.health.window import Disk
from kerneltui.runs.journal import Journal
from kerneltui.runs.loaded import alerts_of
from kerneltui.runs.machine import Sample
from kerneltui.runs.on_alert import OnAlert
from kerneltui.runs.stacks import take_stacks
from kerneltui.runs.tail import JsonTail

# Seconds between two judgements; and how long a rank may be gone before the launcher has noticed.
INTERVAL = 5.0
_RANK_GONE = 15.0


class Vigil:
    """Watches one attempt. What it finds becomes events `alert` and `alert_over`; each alert is said once."""

    def __init__(self, run: RunDirectory, journal: Journal) -> None:
        self._run = run
        self._journal = journal
        self._attempt = journal.state.attempt
        self._record = _record_of(run)
        launch = self._record.plan.launch if self._record else None
        self._health = Health(self._record.server.gpus if self._record else (), launch.gpus if launch else None)
        self._on_alert = OnAlert(launch.on_alert if launch else None, run)
        self._metrics = JsonTail(run.metrics)
        self._said: set[str] = set()
        self._ranks: dict[int, dict[str, Any]] = {}
        self._gone: dict[int, float] = {}
        self._next = 0.0
        self._checkpoint: Path | None = None
        self._size: int | None = None

    def add_event(self, event: dict[str, Any]) -> None:
        """Take in an event of the attempt, and hold what was loaded against the promise."""
        self._health.add_event(event)
        match event.get("event"):
            case "alert":
                self._said.add(str(event.get("id")))
            case "process_start" if isinstance(event.get("rank"), int):
                self._ranks[event["rank"]] = event
            case "process_end":
                self._ranks.pop(event.get("rank", 0), None)
            case "checkpoint" if isinstance(event.get("path"), str):
                self._checkpoint, self._size = Path(event["path"]), None
            case "train_begin":
                for alert in self._loading(event):
                    self.say(alert)

    def add_sample(self, sample: Sample) -> None:
        """Take in a sample of the machine."""
        self._health.add_sample(datetime.now().astimezone(), sample)

    def look(self) -> None:
        """Judge, when it is time to, and write what is new. Raises nothing that a disk may raise."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + INTERVAL
        for line in self._metrics.read_all():
            if line.get("attempt") == self._attempt:
                self._health.add_metrics(line)
        now = datetime.now().astimezone()
        new, over = self._health.look(now, printed=self._printed(), room=self._room())
        for alert in new:
            self.say(self._with_stacks(alert) if alert.id == "stalled" else alert)
        for name in over:
            self._journal.event("alert_over", id=name)
        self._look_at_ranks()

    def say(self, alert: Alert) -> None:
        """Write an alert, and run the person's command for it."""
        self._said.add(alert.id)
        self._journal.event("alert", **msgspec.structs.asdict(alert))
        self._on_alert.tell(alert)

    def end(self, phase: str, reason: str | None, way_out: str | None) -> None:
        """Run the person's command for an end that they did not ask for, and wait for all commands."""
        if phase in ("failed", "lost") or (phase == "killed" and reason and not reason.startswith("by request")):
            text = f"{self._run.name} {phase}: {reason}"
            self._on_alert.tell(Alert(id="ended", severity="block", text=text, next_step=way_out or "Read its log."))
        self._on_alert.settle()

    def _loading(self, begin: dict[str, Any]) -> list[Alert]:
        found = alerts_of(self._record, begin) if self._record else []
        with contextlib.suppress(KerneltuiError):
            found += _not_resumed(self._run.read_command(self._attempt).argv, begin)
        return [alert for alert in found if alert.id not in self._said]

    def _printed(self) -> datetime | None:
        try:
            return datetime.fromtimestamp(self._run.output(self._attempt).stat().st_mtime).astimezone()
        except OSError:
            return None

    def _room(self) -> Disk | None:
        """Return the disk of the checkpoints; the last one is measured once."""
        folder = self._checkpoint.parent if self._checkpoint else self._run.path
        try:
            free = shutil.disk_usage(folder).free
        except OSError:
            return None
        if self._checkpoint and self._size is None:
            self._size = size_of(self._checkpoint) or None
        return Disk(str(folder), free, self._size, self._health.steps_to_checkpoint)

    def _with_stacks(self, alert: Alert) -> Alert:
        """Return the alert of a run that stands still with where its ranks stand."""
        asked = {}
        for rank, start in self._ranks.items():
            with contextlib.suppress(psutil.Error, KeyError, TypeError):
                asked[rank] = (psutil.Process(start["pid"]), Path(start["stacks"]), int(start["stacks_signal"]))
        told = [f"Rank {rank} is in {words}." for rank, words in sorted(take_stacks(asked).items())]
        return msgspec.structs.replace(alert, why=" ".join([alert.why or "", *told])) if told else alert

    def _look_at_ranks(self) -> None:
        """Say where a rank is gone without a word while the others go on."""
        for rank, start in list(self._ranks.items()):
            pid = start.get("pid")
            if not isinstance(pid, int) or psutil.pid_exists(pid) or len(self._ranks) < 2:
                self._gone.pop(rank, None)
            elif time.monotonic() > self._gone.setdefault(rank, time.monotonic()) + _RANK_GONE:
                name = f"rank_died:{rank}"
                if name not in self._said:
                    text = f"rank {rank} is gone without a word; the others wait for it"
                    ways = "`kerneltui stop RUN --now`, then `kerneltui resume RUN`."
                    self.say(Alert(id=name, severity="block", text=text, next_step=ways))


def _not_resumed(argv: tuple[str, ...], begin: dict[str, Any]) -> list[Alert]:
    """Return an alert where training was to go on from a checkpoint, and has begun at its first step."""
    places = [place for place, word in enumerate(argv[:-1]) if word == "--resume_from_checkpoint"]
    if not places or begin.get("step") != 0 or argv[places[-1] + 1].endswith("checkpoint-0"):
        return []
    return [
        Alert(
            id="not_resumed", severity="block", text="training began at step 0 instead of going on from the checkpoint",
            next_step="Stop it now: what it saves may replace what was there. Report it with `kerneltui report`.",
        )
    ]  # fmt: skip


def _record_of(run: RunDirectory) -> RunRecord | None:
    try:
        return run.read_run()
    except KerneltuiError:
        return None
