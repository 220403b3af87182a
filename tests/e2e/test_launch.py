"""The main job, end to end: real TRL on a tiny model on the CPU, the kernel served by the loopback Hub."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from kerneltui import demo
from kerneltui.runs.directory import RunDirectory, read_lines
from tests.hub.server import LoopbackHub

KERNEL = "kernels-community/flash-attn2"


def kerneltui(*arguments: str, environment: dict[str, str], cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the command as a person would, in an environment of its own."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "kerneltui", *arguments],
        env={**os.environ, **environment}, cwd=cwd, capture_output=True, text=True, timeout=600,
    )  # fmt: skip


def write_config(path: Path, trainer: str = "sft", **changes: Any) -> Path:
    """Write a configuration that trains the demo's model for three steps on the CPU."""
    values = {
        "model_name_or_path": str(demo.model_path()),
        "datasets": [{"path": "json", "data_files": str(demo.data_path(trainer))}],
        "use_cpu": True,
        "dataloader_pin_memory": False,
        "bf16": False,
        "max_steps": 3,
        "logging_steps": 1,
        "per_device_train_batch_size": 2,
        "max_length": 128,
        "report_to": "none",
        "gradient_checkpointing": False,
        **changes,
    }
    path.write_text(yaml.safe_dump(values))
    return path


@pytest.mark.parametrize(
    ("trainer", "asked", "used", "revision", "changes"),
    [
        pytest.param("sft", f"{KERNEL}@v2", f"{KERNEL}@v2", "v2", {}, marks=pytest.mark.full),
        pytest.param("sft", "flash_attention_2", KERNEL, "v4", {}, marks=pytest.mark.full),
        ("sft", f"{KERNEL}@v2", f"{KERNEL}@v2", "v2", {"packing": True}),
        ("dpo", f"{KERNEL}@v2", f"{KERNEL}@v2", "v2", {}),
        pytest.param("sft", "sdpa", "sdpa", None, {}, marks=pytest.mark.full),
    ],
    ids=["revision", "flash_attention_2", "packing", "dpo", "sdpa"],
)
def test_a_plan_becomes_a_recorded_run_on_the_kernel_that_was_promised(
    tmp_path: Path, hub: LoopbackHub, trainer: str, asked: str, used: str, revision: str | None,
    changes: dict[str, Any],
) -> None:  # fmt: skip
    config = write_config(tmp_path / "config.yaml", trainer, attn_implementation=asked, **changes)
    counted = tmp_path / "calls.json"
    done = kerneltui(
        "launch", trainer, "config.yaml", "--wait", "--name", "run", "--runs-dir", "runs",
        environment={**hub.environment(), "KERNELTUI_TEST_CALLS": str(counted)}, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    run = RunDirectory(tmp_path / "runs" / "run")
    assert (run.attempt(1) / "config.yaml").read_bytes() == config.read_bytes()
    assert run.read_state().phase == "finished"

    promised = run.read_run().will_run.attention
    assert (promised.asked, promised.implementation, promised.revision) == (asked, used, revision)
    begin = next(event for event in read_lines(run.events) if event["event"] == "train_begin")
    assert begin["attention"] == used
    logged = [line for line in read_lines(run.metrics) if line["kind"] == "log" and "loss" in line["values"]]
    assert [line["step"] for line in logged] == [1, 2, 3]

    if revision is None:
        assert begin["kernels"] == []
        assert not counted.exists()
        return
    (kernel,) = begin["kernels"]
    assert (promised.repository, promised.commit, promised.variant) == (
        KERNEL,
        kernel["commit"],
        kernel["variant"],
    )
    served = hub.repository(KERNEL).find(revision)
    assert served and promised.commit == served.id
    calls = json.loads(counted.read_text())
    assert calls["varlen"] + calls["dense"] > 0, "the kernel's own count"
    if changes.get("packing"):
        assert calls["dense"] == 0
