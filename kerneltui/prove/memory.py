"""The memory of a plan, measured: steps of its own trainer at full shape, on random weights, on the card it names."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from kerneltui.advice.memory.fits import memory_of
from kerneltui.advice.memory.sharding import sharding_of
from kerneltui.advice.situation import Situation
from kerneltui.errors import KerneltuiError
from kerneltui.facts.proof import Ending, MeasuredMemory
from kerneltui.interpreter import ProgressCallback, worker_command
from kerneltui.prove.card import no_room, trial_environment
from kerneltui.runs.launch import make_kernel_loadable
from kerneltui.text import hide_secrets, now, plain, plain_line

LIMIT = 600.0
"""Seconds that a measurement may take: large models are made and trained for two steps."""

_TICK = 0.2
_TAIL = 2000  # characters of output that are kept of a step that failed
_MEMORY = re.compile(r"out of memory|OutOfMemory|CUBLAS_STATUS_ALLOC_FAILED", re.IGNORECASE)
# Where the model was not counted: what a small model takes.
_ROOM = 4 << 30


class Measuring:
    """One measurement. `cancel` may be called from any thread: `run` then ends its process and raises."""

    def __init__(self, situation: Situation, python: Path, *, limit: float = LIMIT) -> None:
        self.situation = situation
        self.python = python
        self._limit = limit
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        """End it."""
        self._cancelled.set()

    def run(self, on_progress: ProgressCallback | None = None) -> MeasuredMemory:
        """Return what was measured. Raises KerneltuiError where it cannot be, with the reason."""
        tell = on_progress or (lambda text: None)
        if reason := why_not(self.situation):
            raise KerneltuiError("The memory of a step cannot be measured", reason)
        make_kernel_loadable(self.situation)
        tell("two steps at full shape, on random weights")
        begun, began = now(), time.monotonic()
        with tempfile.TemporaryDirectory(prefix="kerneltui-memory-", ignore_cleanup_errors=True) as folder:
            code, tail = self._train(Path(folder))
            report = _read(Path(folder, "memory.json"))
        gpu = self.situation.gpus[0] if self.situation.gpus else None
        ended, ending = _end(code, report)
        peaks = report.get("peaks", {})
        return MeasuredMemory(
            time=begun,
            seconds=round(time.monotonic() - began, 1),
            ended=ended,
            ending=ending,
            tail=None if ended == "ok" else tail,
            device=(gpu and gpu.name) or "GPU",
            peak=peaks.get("allocated"),
            reserved=peaks.get("reserved"),
            total=gpu.memory_total if gpu else None,
        )

    def _train(self, folder: Path) -> tuple[int | None, str]:
        """Return the exit code of the training program, None where it hung, and the end of its output."""
        log = folder / "output.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                measuring_command(self.situation, self.python, folder),
                cwd=self.situation.plan.cwd,
                env={**os.environ, **trial_environment(self.situation)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
            try:
                code = self._wait(process)
            finally:
                process.kill()
                process.wait()
        return code, hide_secrets(plain(log.read_text("utf-8", "replace")[-_TAIL:]))

    def _wait(self, process: subprocess.Popen[bytes]) -> int | None:
        deadline = time.monotonic() + self._limit
        while time.monotonic() < deadline:
            if self._cancelled.is_set():
                raise KerneltuiError("The measurement was ended", "Nothing of it was kept.")
            try:
                return process.wait(timeout=_TICK)
            except subprocess.TimeoutExpired:
                continue
        return None


def measuring_command(situation: Situation, python: Path, folder: Path) -> list[str]:
    """Return the command that measures a plan, its configuration written to `folder`."""
    plan = situation.plan
    config: tuple[str, ...] = ()
    if plan.config is not None:
        path = folder / "config.yaml"
        path.write_text(plan.config, encoding="utf-8")
        config = ("--config", str(path))
    flags = (*config, *situation.settings.script_flags, "--output_dir", str(folder / "output"))
    return worker_command(python, "measure", str(folder / "memory.json"), plan.trainer, *flags)


def why_not(situation: Situation) -> str | None:
    """Return why a plan's memory cannot be measured here, None where it can."""
    libraries = situation.server.libraries
    if situation.elsewhere:
        return "the plan is for another machine"
    if not situation.on_gpu:
        return "it trains on the CPU, whose memory is not counted"
    if libraries and situation.plan.trainer in libraries.experimental:
        return f"{situation.plan.trainer} is a trainer of trl.experimental, which has no script of its own"
    if situation.settings.get("use_vllm"):
        return "vLLM takes its share by itself"
    if sharding_of(situation.settings).stage:
        return "the plan spreads its model over several GPUs, and one process alone would hold all of it"
    memory = memory_of(situation)
    return no_room(situation, memory.estimate.low if memory else _ROOM)


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _end(code: int | None, report: dict[str, Any]) -> tuple[Ending, str | None]:
    """Return how the process ended, and in which words."""
    error = report.get("error")
    if code == 0 and report:
        return "ok", None
    if isinstance(error, dict):
        words = plain_line(hide_secrets(f"{error.get('type')}: {error.get('message')}"))
        return ("out_of_memory" if _MEMORY.search(words) else "raised"), words
    if code is None:
        return "hung", "it did not come to its end in time"
    return ("crashed", f"signal {-code}") if code < 0 else ("exited", f"exit code {code}")
