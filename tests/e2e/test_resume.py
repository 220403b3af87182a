"""A run of which every process was killed goes on from its last checkpoint as if nothing had been."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from kerneltui.runs.control import ask_run
from kerneltui.runs.directory import ACTIVE, RunDirectory, read_lines
from kerneltui.runs.processes import processes_of
from kerneltui.runs.resume import plan_resumption, resume
from kerneltui.runs.view import view_run
from tests.e2e.test_launch import kerneltui, write_config
from tests.waiting import until


def _losses(run: RunDirectory, attempt: int) -> dict[int, float]:
    lines = [line for line in read_lines(run.metrics) if line["attempt"] == attempt and line["kind"] == "log"]
    return {line["step"]: line["values"]["loss"] for line in lines if "loss" in line["values"]}


@pytest.mark.full
@pytest.mark.parametrize("victim", ["everything", "launcher", "rank"])
def test_a_killed_run_goes_on_with_the_same_losses(tmp_path: Path, victim: str) -> None:
    write_config(tmp_path / "config.yaml", attn_implementation="sdpa", max_steps=100000, save_steps=7, seed=7)
    started = kerneltui(
        "launch", "sft", "config.yaml", "--name", "run", "--runs-dir", "runs",
        environment={"HF_HUB_OFFLINE": "1"}, cwd=tmp_path,
    )  # fmt: skip
    assert started.returncode == 0, started.stderr
    run = RunDirectory(tmp_path / "runs" / "run")
    until(lambda: len(_losses(run, 1)) > 18, limit=300)
    (start,) = [event for event in read_lines(run.events) if event["event"] == "process_start"]
    pids = {"launcher": [run.read_state().pid], "rank": [start["pid"]]}
    pids["everything"] = [run.read_state().supervisor_pid, *(process.pid for process in processes_of(run.path))]
    for pid in pids[victim]:
        psutil.Process(pid).kill()
    if victim == "launcher":  # the rank goes on, and is still watched
        seen = len(_losses(run, 1))
        until(lambda: len(_losses(run, 1)) > seen + 2)
        ask_run(run, "kill")
    until(lambda: view_run(run).phase not in ACTIVE)
    assert view_run(run).phase == "killed"
    assert processes_of(run.path) == []

    found = plan_resumption(run)
    assert found.checkpoint.step % 7 == 0
    resume(found)
    until(lambda: max(_losses(run, 2), default=0) > max(_losses(run, 1)), limit=300)
    ask_run(run, "kill")
    until(lambda: run.read_state().phase not in ACTIVE)
    unbroken, again = _losses(run, 1), _losses(run, 2)
    assert min(again) == found.checkpoint.step + 1
    common = sorted(set(unbroken) & set(again))
    assert [again[step] for step in common] == [unbroken[step] for step in common]
