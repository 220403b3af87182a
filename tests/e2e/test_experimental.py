"""The trainers of `trl.experimental`, launched from the command line: the demo's model on the CPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kerneltui import demo
from kerneltui.advice.about_trainers import ABOUT
from kerneltui.runs.directory import RunDirectory, read_lines
from tests.e2e.test_launch import kerneltui, write_config

_REWARD = {"reward_funcs": ["rewards.short"]}
_TAUGHT = {"teacher_model_name_or_path": str(demo.model_path())}
# Trainer, the trainer of the `trl` command with data of the same kind, what else it needs, a metric of its own.
CASES: dict[str, tuple[str, dict[str, Any], str]] = {
    "orpo": ("dpo", {}, "log_odds_ratio"),
    "cpo": ("dpo", {}, "nll_loss"),
    "tpo": ("dpo", {}, "rewards/chosen"),
    "gkd": ("sft", {**_TAUGHT, "max_new_tokens": 4}, "loss"),
    "gold": ("sft", {**_TAUGHT, "max_completion_length": 8}, "loss"),
    "iw_opd": ("sft", {**_TAUGHT, "max_completion_length": 8}, "loss"),
    "online_dpo": ("grpo", {**_REWARD, "max_new_tokens": 4}, "objective/kl"),
    "sdft": ("grpo", {"max_completion_length": 4, "num_generations": 2}, "self_distillation/distillation_loss"),
    "sdpo": ("grpo", {**_REWARD, "max_completion_length": 4, "num_generations": 2}, "self_distillation/reward_mean"),
    "gmpo": ("grpo", {**_REWARD, "max_completion_length": 4, "num_generations": 2}, "reward"),
    "a2po": ("grpo", {**_REWARD, "max_completion_length": 4, "num_value_samples": 2}, "reward"),
}
_NO_LENGTH = ("online_dpo", "sdft", "sdpo", "gmpo", "a2po")


def _write_data(folder: Path, trainer: str, kin: str) -> Path:
    """Write the demo's rows with the column that a trainer needs beside them."""
    more = {"tpo": lambda row: {"reference": row["chosen"]}, "sdft": lambda row: {"privileged_context": "A sum."}}
    rows = [json.loads(line) for line in demo.data_path(kin).read_text().splitlines()]
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps({**row, **more.get(trainer, lambda _: {})(row)}) + "\n" for row in rows))
    return path


def _launch(tmp_path: Path, trainer: str) -> None:
    kin, options, metric = CASES[trainer]
    (tmp_path / "rewards.py").write_text(
        "def short(completions=None, **_):\n    return [-float(len(str(it))) for it in completions]\n"
    )
    write_config(
        tmp_path / "config.yaml",
        datasets=[{"path": "json", "data_files": str(_write_data(tmp_path, trainer, kin))}],
        **options,
    )
    if trainer in _NO_LENGTH:
        text = (tmp_path / "config.yaml").read_text()
        (tmp_path / "config.yaml").write_text(text.replace("max_length: 128\n", ""))
    done = kerneltui(
        "launch", trainer, "config.yaml", "--wait", "--name", "run", "--runs-dir", "runs", environment={}, cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout + done.stderr
    run = RunDirectory(tmp_path / "runs" / "run")
    assert run.read_state().phase == "finished"
    logged = [line for line in read_lines(run.metrics) if line["kind"] == "log" and "loss" in line["values"]]
    assert [line["step"] for line in logged] == [1, 2, 3]
    assert metric in logged[0]["values"], sorted(logged[0]["values"])
    told = {name for line in logged for name in line["values"]}
    assert set(ABOUT[trainer].curves) - {"kl"} <= told, sorted(told)
    assert (run.path / "output" / "model.safetensors").exists()


@pytest.mark.full
def test_orpo_from_the_command_line(tmp_path: Path) -> None:
    _launch(tmp_path, "orpo")


@pytest.mark.full
@pytest.mark.parametrize("trainer", [name for name in CASES if name != "orpo"])
def test_a_trainer_from_the_command_line(tmp_path: Path, trainer: str) -> None:
    _launch(tmp_path, trainer)


@pytest.mark.full
def test_what_a_trainer_needs_is_told_before_anything_starts(tmp_path: Path) -> None:
    write_config(tmp_path / "config.yaml")
    done = kerneltui("launch", "async_grpo", "config.yaml", "--runs-dir", "runs", environment={}, cwd=tmp_path)
    assert done.returncode == 1
    assert "async_grpo trains on a GPU only" in done.stderr
    assert "trl vllm-serve" in done.stderr
    assert not (tmp_path / "runs").exists()
