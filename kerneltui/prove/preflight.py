"""The preflight of a plan's attention: a fresh process tries it at the model's shapes, on the card that is planned.

How the process ends is a result too: each case is a question of its own, so it is known at which one it died or hung.
"""

from __future__ import annotations

import functools
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from kerneltui.advice.situation import Situation
from kerneltui.advice.subject import subject_of
from kerneltui.errors import KerneltuiError
from kerneltui.facts.proof import Check, Preflight, Speed, Subject
from kerneltui.facts.proofs import find_preflight, keep_preflight
from kerneltui.interpreter import ProgressCallback, Worker
from kerneltui.prove.card import no_room, trial_environment
from kerneltui.prove.trial import watch
from kerneltui.records import from_builtins
from kerneltui.text import hide_secrets, now, plain, plain_line

ROOM = 4 << 30
"""Bytes of the card that a preflight takes at most: the context, the longest case in float64, and the measurement."""

_BESIDE = ("sdpa", "eager")


@dataclass(frozen=True)
class Limits:
    """Seconds that may pass until an answer: loading (imports, a download, a kernel that compiles), and one case."""

    load: float = 600
    case: float = 120


_LIMITS = Limits()


class _Made:
    """What a process has told so far; it stays when the process dies."""

    def __init__(self) -> None:
        self.at = "starting"
        self.checks: list[Check] = []
        self.left: list[str] = []
        self.speed: list[Speed] = []
        self.speed_case: str | None = None
        self.load_seconds: float | None = None
        self.loaded: tuple[dict[str, Any], ...] = ()


class Preflighting:
    """One preflight. `cancel` may be called from any thread: `run` then ends its process and raises."""

    def __init__(
        self, situation: Situation, python: Path, *, limits: Limits | None = None, again: bool = False
    ) -> None:
        self.situation = situation
        self.python = python
        self._limits = limits or Limits()
        self._again = again
        self._cancelled = threading.Event()
        self._worker: Worker | None = None

    def cancel(self) -> None:
        """End it; what was being tried is left."""
        self._cancelled.set()
        if worker := self._worker:
            worker.kill()

    def run(self, on_progress: ProgressCallback | None = None) -> Preflight:
        """Return the preflight of the plan's attention: one that was kept, unless `again`; `on_progress` gets words.

        Raises KerneltuiError where it cannot be made: nothing is known of the model, no build, no room, cancelled.
        """
        subject = subject_of(self.situation)
        if isinstance(subject, str):
            raise KerneltuiError("There is nothing to try", subject)
        if not self._again and (kept := find_preflight(subject)):
            return kept
        if reason := no_room(self.situation, ROOM):
            raise KerneltuiError("There is no room on the card", reason)
        found = self._run(subject, on_progress or (lambda text: None))
        if self._cancelled.is_set():
            raise KerneltuiError("The preflight was ended", "Nothing of it was kept.")
        keep_preflight(found)
        return found

    def _run(self, subject: Subject, tell: ProgressCallback) -> Preflight:
        begun, began, made = now(), time.monotonic(), _Made()
        cwd = Path(self.situation.plan.cwd)
        environment = trial_environment(self.situation)
        with Worker(self.python, "preflight", environment=environment, cwd=cwd if cwd.is_dir() else None) as worker:
            self._worker = worker
            if self._cancelled.is_set():
                worker.kill()
            ask = functools.partial(_try, worker, self.situation, subject, made, tell, self._limits)
            ended, ending, tail = watch(ask, worker)
        for name in made.left:
            why = f"the process had ended at {made.at}"
            made.checks.append(Check(name="case", case=name, outcome="skipped", reason=why))
        return Preflight(
            time=begun,
            seconds=round(time.monotonic() - began, 1),
            ended=ended,
            ending=ending,
            at=None if ended == "ok" else made.at,
            tail=tail,
            subject=subject,
            checks=tuple(made.checks),
            speed=tuple(made.speed),
            speed_case=made.speed_case,
            load_seconds=made.load_seconds,
            loaded=made.loaded,
        )


def _try(
    worker: Worker,
    situation: Situation,
    subject: Subject,
    made: _Made,
    tell: ProgressCallback,
    limits: Limits,
) -> None:
    """Ask for everything, one thing after the other, and put it into `made`."""
    made.at = f"loading {subject.implementation}"
    tell(made.at)
    loaded = worker.ask(
        "preflight.load",
        timeout=limits.load,
        on_progress=tell,
        implementation=subject.implementation,
        shapes=msgspec.to_builtins(subject.shapes),
        dtype=subject.dtype,
        device="cuda" if situation.on_gpu else "cpu",
        length=subject.length,
        batch=subject.batch,
        packed=subject.packed,
        allow_all_kernels=bool(situation.settings.model_kwargs.get("allow_all_kernels")),
    )
    made.load_seconds, made.loaded = loaded["seconds"], tuple(loaded["loaded"])
    made.left, made.speed_case = [plain_line(case) for case in loaded["cases"]], plain_line(loaded["speed"])
    for number, case in enumerate(list(made.left)):
        made.at = case
        tell(f"{number + 1} of {len(loaded['cases'])}: {case}")
        checks = worker.ask("preflight.case", timeout=limits.case, number=number)
        made.left.remove(case)
        made.checks += [_check(check) for check in checks]
    for name in dict.fromkeys((loaded["name"], *_BESIDE)):
        made.at = f"measuring {name}"
        tell(made.at)
        answer = worker.ask("preflight.speed", timeout=limits.case, implementation=name)
        made.speed.append(from_builtins({"implementation": name, **_plain(answer)}, Speed, "a measurement"))


def _check(raw: dict[str, Any]) -> Check:
    return from_builtins(_plain(raw), Check, "a check")


def _plain(raw: dict[str, Any]) -> dict[str, Any]:
    """Return an answer with its words made harmless: an exception's are the kernel's own."""
    return {name: hide_secrets(plain(value)) if isinstance(value, str) else value for name, value in raw.items()}
