"""Two ranks of the real TRL on the CPU: what is asked of a run happens on both at the same step."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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
        until(lambda: [event for event in read_lines(run.events) if event["event"] == "checkpoint"])
        seen = len(_steps(run))
        until(lambda: len(_steps(run)) > seen + 2)
        ask_run(run, "stop")
        until(lambda: run.read_state().phase not in ACTIVE)
    finally:
        end_processes(run.path)
    assert (run.read_state().phase, run.read_state().exit_code) == ("stopped", 0), run.output(1).read_text()[-3000:]

    events = read_lines(run.events)
    (begin,) = [event for event in events if event["event"] == "train_begin"]
    assert begin["world_size"] == 2
    # Both ranks came to their end by the same request: one that went on alone would have waited for the other.
    ends = {event["rank"]: event["outcome"] for event in events if event["event"] == "process_end"}
    assert ends == {0: "stopped", 1: "stopped"}
    requests = [(event["action"], event["step"]) for event in events if event["event"] == "request"]
    checkpoints = [(event["step"], Path(event["path"])) for event in events if event["event"] == "checkpoint"]
    assert [action for action, _ in requests] == ["checkpoint", "stop"]
    assert [step for _, step in requests] == [step for step, _ in checkpoints]
    assert _steps(run)[-1] == requests[-1][1]
    found = sorted(path.name for path in (run.path / "output").glob("checkpoint-*"))
    assert found == sorted(path.name for _, path in checkpoints)
    step, last = checkpoints[-1]
    # Each rank saves its own random state into the one directory.
    assert {"trainer_state.json", "model.safetensors", "optimizer.pt", "rng_state_0.pth", "rng_state_1.pth"} <= {
        path.name for path in last.iterdir()
    }
    _resume(tmp_path, environment, last, step + 2)


def _resume(folder: Path, environment: dict[str, str], checkpoint: Path, steps: int) -> None:
    """Go on from a checkpoint with the plain `trl` command, on two ranks as well."""
    done = subprocess.run(
        [
            str(Path(sys.executable).parent / "trl"), "sft", "--config", "config.yaml", *TWO_RANKS,
            "--resume_from_checkpoint", str(checkpoint), "--max_steps", str(steps), "--output_dir", "resumed",
        ],
        cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"{steps}/{steps}" in done.stderr
