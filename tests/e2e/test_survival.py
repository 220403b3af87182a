"""A run outlives the command that follows it and the terminal that started it, and stops with a checkpoint."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

from kerneltui import demo
from kerneltui.runs.directory import ACTIVE, RunDirectory, read_lines
from tests.e2e.test_launch import kerneltui, write_config
from tests.waiting import until


def _logged_steps(run: RunDirectory) -> list[int]:
    return [line["step"] for line in read_lines(run.metrics) if line["kind"] == "log" and "loss" in line["values"]]


def test_a_run_outlives_its_terminal_and_stops_with_a_checkpoint_and_goes_on(tmp_path: Path) -> None:
    environment = {"LOCAL_KERNELS": demo.local_kernels(None), "HF_HUB_OFFLINE": "1", "HOME": str(tmp_path)}
    write_config(
        tmp_path / "config.yaml",
        attn_implementation=demo.ATTENTION,
        max_steps=100000,
        save_steps=100000,
        seed=7,
    )
    run = RunDirectory(tmp_path / "runs" / "run")
    command = [
        sys.executable,
        "-P",
        "-m",
        "kerneltui",
        "launch",
        "sft",
        "config.yaml",
        "--wait",
        "--name",
        "run",
    ]
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(tmp_path)
        os.execve(command[0], [*command, "--runs-dir", "runs"], {**os.environ, **environment})
    try:
        until(lambda: run.metrics.exists() and len(_logged_steps(run)) > 2, limit=180)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    finally:
        os.close(terminal)  # the terminal hangs up: its session ends

    seen = len(_logged_steps(run))
    until(lambda: len(_logged_steps(run)) > seen + 2)
    listed = kerneltui("runs", "--runs-dir", "runs", environment=environment, cwd=tmp_path)
    assert "running" in listed.stdout and "run" in listed.stdout
    watching = subprocess.Popen(
        [sys.executable, "-P", "-m", "kerneltui", "watch", "run", "--plain", "--runs-dir", "runs"],
        cwd=tmp_path, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip

    assert kerneltui("checkpoint", "run", "--runs-dir", "runs", environment=environment, cwd=tmp_path).returncode == 0
    until(lambda: "checkpoint" in [event["event"] for event in read_lines(run.events)])
    seen = len(_logged_steps(run))
    until(lambda: len(_logged_steps(run)) > seen)
    assert kerneltui("stop", "run", "--runs-dir", "runs", environment=environment, cwd=tmp_path).returncode == 0
    until(lambda: run.read_state().phase not in ACTIVE)
    assert run.read_state().phase == "stopped"

    steps = _logged_steps(run)
    assert steps == list(range(1, len(steps) + 1)), "a logged step is missing"
    shown, _ = watching.communicate(timeout=60)
    assert watching.returncode == 0
    assert [f"step {step}/" in shown for step in steps] == [True] * len(steps)

    checkpoints = [Path(event["path"]) for event in read_lines(run.events) if event["event"] == "checkpoint"]
    assert len(checkpoints) == 2
    assert (run.path / "output" / "model.safetensors").is_file()
    # As an end in the middle of writing leaves it: the one before must be taken.
    os.truncate(checkpoints[1] / "optimizer.pt", 1000)
    resumed = kerneltui("resume", "run", "--runs-dir", "runs", environment=environment, cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    assert f"passed over {checkpoints[1].name}: optimizer.pt is cut off or damaged" in resumed.stdout
    first, unbroken = int(checkpoints[0].name.partition("-")[2]), _losses(run, 1)
    until(lambda: max(_losses(run, 2), default=0) > max(unbroken), limit=180)
    assert kerneltui("stop", "run", "--runs-dir", "runs", environment=environment, cwd=tmp_path).returncode == 0
    until(lambda: run.read_state().phase not in ACTIVE)
    assert (run.read_state().phase, run.read_state().attempt) == ("stopped", 2)
    again = _losses(run, 2)
    assert min(again) == first + 1
    assert {step: again[step] for step in unbroken if step > first} == {
        step: loss for step, loss in unbroken.items() if step > first
    }


def _losses(run: RunDirectory, attempt: int) -> dict[int, float]:
    lines = [line for line in read_lines(run.metrics) if line["attempt"] == attempt and line["kind"] == "log"]
    return {line["step"]: line["values"]["loss"] for line in lines if "loss" in line["values"]}
