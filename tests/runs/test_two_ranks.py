"""Two ranks of the real TRL on the CPU: what is asked of a run happens on both at the same step."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from kerneltui import demo
from kerneltui.runs.control import ask_run
from kerneltui.runs.directory import ACTIVE, RunDirectory, read_lines
from kerneltui.runs.processes import end_processes
from tests.e2e.test_launch import kerneltui, write_config
from tests.waiting import until

# With its launcher for the CPU accelerate starts one process, whatever the number.
TWO_RANKS = ("--multi_gpu", "--num_processes", "2")


def _steps(run: RunDirectory) -> list[int]:
    return [line["step"] for line in read_lines(run.metrics) if line["kind"] == "log" and "loss" in line["values"]]


def _of(run: RunDirectory, name: str) -> list[dict[str, Any]]:
    return [event for event in read_lines(run.events) if event["event"] == name]


def _end(run: RunDirectory) -> None:
    """Wait for the end of a run whose ranks have all ended their training.

    Under torch 2.13 a rank on the CPU may hang when it takes down its process group, under plain `trl` as well:
    `~ProcessGroupGloo`, called with the GIL, joins a thread that waits for the GIL.
    """
    deadline = time.monotonic() + 20
    while run.read_state().phase in ACTIVE and time.monotonic() < deadline:
        time.sleep(0.1)
    if run.read_state().phase not in ACTIVE:
        assert (run.read_state().phase, run.read_state().exit_code) == ("stopped", 0)
        return
    hung = {event["rank"] for event in _of(run, "process_start")} - {event["rank"] for event in _of(run, "process_end")}
    assert hung, run.read_state()
    ask_run(run, "kill")
    until(lambda: run.read_state().phase not in ACTIVE)


@pytest.mark.full
def test_two_ranks_save_and_stop_at_the_same_step(tmp_path: Path) -> None:
    environment = {"LOCAL_KERNELS": demo.local_kernels(None), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    write_config(
        tmp_path / "config.yaml",
        attn_implementation=demo.ATTENTION,
        max_steps=100000,
        save_steps=100000,
    )
    started = kerneltui(
        "launch", "sft", "config.yaml", *TWO_RANKS, "--name", "run", "--runs-dir", "runs",
        environment=environment, cwd=tmp_path,
    )  # fmt: skip
    assert started.returncode == 0, started.stderr
    run = RunDirectory(tmp_path / "runs" / "run")
    try:
        until(lambda: len(_steps(run)) > 2, limit=240)
        ask_run(run, "checkpoint")
        until(lambda: _of(run, "checkpoint"))
        seen = len(_steps(run))
        until(lambda: len(_steps(run)) > seen + 2)
        ask_run(run, "stop")
        until(lambda: len(_of(run, "train_end")) == 2)
        _end(run)
    finally:
        end_processes(run.path)

    (begin,) = _of(run, "train_begin")
    assert begin["world_size"] == 2
    requests = [(event["action"], event["step"]) for event in _of(run, "request")]
    checkpoints = [(event["step"], Path(event["path"])) for event in _of(run, "checkpoint")]
    last_step = requests[-1][1]
    assert [action for action, _ in requests] == ["checkpoint", "stop"]
    assert [step for _, step in requests] == [step for step, _ in checkpoints]
    assert {(event["rank"], event["step"]) for event in _of(run, "train_end")} == {(0, last_step), (1, last_step)}
    assert _steps(run)[-1] == last_step
    # A rank that had saved at another step would have left its part in another directory.
    found = sorted(path.name for path in (run.path / "output").glob("checkpoint-*"))
    assert found == sorted(path.name for _, path in checkpoints)
    step, last = checkpoints[-1]
    # Each rank saves its own random state into the one directory.
    assert {"trainer_state.json", "model.safetensors", "optimizer.pt", "rng_state_0.pth", "rng_state_1.pth"} <= {
        path.name for path in last.iterdir()
    }
    _resume(tmp_path, environment, last, step + 2)


def _resume(folder: Path, environment: dict[str, str], checkpoint: Path, steps: int) -> None:
    """Go on from a checkpoint with the plain `trl` command."""
    done = subprocess.run(
        [
            str(Path(sys.executable).parent / "trl"), "sft", "--config", "config.yaml",
            "--resume_from_checkpoint", str(checkpoint), "--max_steps", str(steps), "--output_dir", "resumed",
        ],
        cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"{steps}/{steps}" in done.stderr
