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


def test_a_run_outlives_its_terminal_and_stops_with_a_checkpoint_that_trl_resumes(tmp_path: Path) -> None:
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

    checkpoints = [event["path"] for event in read_lines(run.events) if event["event"] == "checkpoint"]
    assert len(checkpoints) == 2
    assert Path(checkpoints[-1], "trainer_state.json").is_file()
    assert (run.path / "output" / "model.safetensors").is_file()
    resumed = subprocess.run(
        [
            str(Path(sys.executable).parent / "trl"), "sft", "--config", "config.yaml",
            "--resume_from_checkpoint", checkpoints[-1], "--max_steps", str(steps[-1] + 2), "--output_dir", "resumed",
        ],
        cwd=tmp_path, env={**os.environ, **environment}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert resumed.returncode == 0, resumed.stderr[-3000:]
    assert f"{steps[-1] + 2}/{steps[-1] + 2}" in resumed.stderr
