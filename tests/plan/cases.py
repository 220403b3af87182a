"""Command lines to plan, of every kind, and what TRL reads of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from kerneltui.interpreter import Asker
from kerneltui.plan.plan import Launch, Plan, make_plan
from kerneltui.plan.settings import Settings, read_settings

BASE: dict[str, Any] = {
    "model_name_or_path": "some/model",
    "dataset_name": "some/data",
    "learning_rate": "2e-5",  # YAML 1.1 takes it for text
    "bf16": False,
}
NO_DATA = {name: value for name, value in BASE.items() if name != "dataset_name"}
TWO = [
    {"path": "json", "data_files": "a b/data [1].jsonl", "columns": ["prompt"], "fraction": 0.3},
    {"path": "some/data", "name": "sub", "split": "train[:10]", "fraction": 0.7},
]


class Case(NamedTuple):
    """A command line to plan: a trainer, the configuration's content, flags, and what launches it."""

    trainer: str = "sft"
    config: dict[str, Any] | None = BASE
    flags: tuple[str, ...] = ()
    launch: Launch = Launch()


CASES = {
    "a file": Case(),
    "flags alone": Case("sft", None, ("--model_name_or_path", "m/n", "--dataset_name", "d/e", "--packing", "--bf16=0")),
    "quotes": Case("dpo", BASE, ("--run_name", "it's \"a\" $HOME `b` \\ \n 你好 é", "--output_dir", "my runs/1")),
    "lora": Case("sft", BASE, ("--use_peft", "--lora_r", "4", "--lora_target_modules", "q_proj", "v_proj")),
    "quantization": Case("sft", BASE, ("--load_in_4bit", "--use_peft", "--dtype", "bfloat16")),
    "short names of flags": Case("sft", BASE, ("--max_step", "3", "--per-device-train-batch-size", "2")),
    "none": Case("sft", BASE, ("--max_length", "none", "--no_remove_unused_columns")),
    "accelerate": Case("sft", {**BASE, "num_processes": 2}, ("--num_processes", "1", "--mixed_precision", "no")),
    "an accelerate configuration": Case("dpo", BASE, ("--accelerate_config", "zero2", "--main_process_port", "29501")),
    "two data sets": Case("sft", {**NO_DATA, "datasets": TWO, "test_split_size": 0.1}, ("--eval_strategy", "steps")),
    "evaluation": Case("dpo", BASE, ("--eval_strategy", "epoch", "--dataset_test_split", "validation")),
    "streaming": Case("sft", {**BASE, "dataset_config": "en"}, ("--dataset_streaming", "--max_steps", "5")),
    "options of the model": Case("kto", BASE, ("--model_init_kwargs", '{"device_map": null}', "--trust_remote_code")),
    "a revision": Case("dpo", {**BASE, "model_revision": "v2"}, ("--attn_implementation", "a/flash@v2")),
    "reward": Case("reward", BASE, ("--seed", "7")),
    "reward functions": Case(
        "grpo", BASE, ("--reward_funcs", "accuracy_reward", "my_lib.rewards.custom", "get_soft_overlong_punishment")
    ),
    "a reward model": Case("rloo", BASE, ("--reward_model_name_or_path", "a/judge", "--attn_implementation", "sdpa")),
    "distillation": Case(
        "distillation", {**BASE, "teacher_model_name_or_path": "some/teacher"},
        ("--teacher_model_init_kwargs", '{"dtype": "auto"}'),
    ),
    "environment": Case(
        "sft", {**BASE, "env": {"HF_HUB_OFFLINE": 1, "SOME": "a b"}}, ("--packing",),
        Launch(gpus=(0, 2), environment={"LOCAL_KERNELS": "a/b=/my path", "SOME": "other"}),
    ),
    "pushing and resuming": Case("sft", BASE, ("--push_to_hub", "--resume_from_checkpoint", "out/checkpoint-3")),
}  # fmt: skip
each = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def planned(case: Case, cwd: Path) -> Plan:
    """Return the plan of a case whose command is given in `cwd`."""
    config = []
    if case.config is not None:
        (cwd / "my config.yaml").write_text(f"# mine\n{yaml.safe_dump(case.config)}")
        config = ["my config.yaml"]
    return make_plan(case.trainer, [*config, *case.flags], cwd=cwd, launch=case.launch)


def read(case: Case, cwd: Path, asker: Asker) -> tuple[Plan, Settings]:
    plan = planned(case, cwd)
    return plan, read_settings(plan, asker)


def comments(text: str) -> list[str]:
    """Return the comment lines at the top of a form."""
    lines = text.splitlines()
    return lines[: next((number for number, line in enumerate(lines) if not line.startswith("#")), len(lines))]
