"""What a rehearsal changes of a plan, and what it leaves as it is."""

from __future__ import annotations

from pathlib import Path

import msgspec
import yaml

from kerneltui.prove.rehearsal_plan import (
    Named,
    Staged,
    changes_of,
    kept_flags,
    models_of,
    rehearsed_config,
    rehearsed_flags,
    renumbered,
    rows_of,
    sources_of,
    untried,
)
from tests.prove.rehearsing import on_the_cpu, with_flags, with_values

ROWS, OUTPUT = Path("/tmp/rows"), Path("/tmp/output")


def test_only_length_saving_and_tracking_change() -> None:
    plan = on_the_cpu(gradient_accumulation_steps=16, packing=True, learning_rate=1e-3, report_to="wandb")
    assert changes_of(plan) == {
        "report_to": "none", "save_strategy": "no", "logging_steps": 1, "logging_nan_inf_filter": False,
        "max_steps": 2, "gradient_accumulation_steps": 2,
    }  # fmt: skip
    assert untried(plan) == ["the trackers (report_to)"]


def test_a_trainer_that_generates_keeps_its_groups_and_makes_short_answers() -> None:
    plan = on_the_cpu("grpo", gradient_accumulation_steps=16, max_completion_length=2048, num_generations=8)
    found = changes_of(plan)
    assert (found["max_steps"], found["max_completion_length"]) == (1, 64)
    assert "gradient_accumulation_steps" not in found
    assert changes_of(on_the_cpu("grpo", max_completion_length=32)).get("max_completion_length") is None


def test_an_evaluation_is_rehearsed_after_the_last_step() -> None:
    assert changes_of(on_the_cpu(eval_strategy="epoch"))["eval_steps"] == 2
    assert "eval_strategy" not in changes_of(on_the_cpu())


def test_a_server_of_vllm_is_not_asked_and_that_is_told() -> None:
    plan = with_values(on_the_cpu("grpo", max_completion_length=32), use_vllm=True, vllm_mode="server")
    assert changes_of(plan)["use_vllm"] is False
    assert any("vLLM" in line for line in untried(plan))
    inside = with_values(plan, vllm_mode="colocate")
    assert "use_vllm" not in changes_of(inside)


def test_every_model_is_made_small_with_the_revision_that_trl_asks_for() -> None:
    plan = on_the_cpu("distillation", model_name_or_path="a/student", model_revision="v1")
    plan = with_values(plan, teacher_model_name_or_path="a/teacher", teacher_model_revision="v2")
    assert models_of(plan) == [
        Named(field="model_name_or_path", path="a/student", revision="v1"),
        Named(field="teacher_model_name_or_path", path="a/teacher", revision="v2"),
    ]
    assert [it.revision for it in models_of(on_the_cpu(model_revision="main"))] == [None]


def test_the_configuration_keeps_what_it_says_but_models_and_data() -> None:
    plan = on_the_cpu(packing=True, resume_from_checkpoint="output/checkpoint-3")
    text = rehearsed_config(plan, Staged({"model_name_or_path": "/tmp/small"}, ROWS, sources_of(plan)))
    written = yaml.safe_load(str(plan.plan.config))
    assert yaml.safe_load(text) == {
        **{name: value for name, value in written.items() if name != "resume_from_checkpoint"},
        "model_name_or_path": "/tmp/small",
        "datasets": [{"path": "parquet", "data_files": "/tmp/rows/part-0.parquet", "split": "train"}],
    }


def test_a_named_data_set_stays_one_with_its_splits() -> None:
    plan = on_the_cpu(
        datasets=[], dataset_name="a/data", dataset_config="small", dataset_train_split="train_sft",
        dataset_test_split="test_sft", eval_strategy="steps", per_device_train_batch_size=16,
    )  # fmt: skip
    assert [(it.entry, it.file, it.rows) for it in sources_of(plan)] == [
        ({"path": "a/data", "name": "small", "split": "train_sft"}, "data/train_sft-00000-of-00001.parquet", 32),
        ({"path": "a/data", "name": "small", "split": "test_sft"}, "data/test_sft-00000-of-00001.parquet", 8),
    ]
    found = yaml.safe_load(rehearsed_config(plan, Staged({}, ROWS, sources_of(plan))))
    assert (found["dataset_name"], found["dataset_train_split"]) == (str(ROWS), "train_sft")
    assert "dataset_config" not in found


def test_flags_that_count_more_than_the_file_are_set_after_them() -> None:
    plan = with_flags(
        on_the_cpu(), "--model_name_or_path", "a/b", "--max_steps=500", "--resume-from-checkpoint", "x", "--packing"
    )
    assert kept_flags(plan) == ("--model_name_or_path", "a/b", "--max_steps=500", "--packing")
    found = rehearsed_flags(plan, Staged({"model_name_or_path": "/tmp/small"}, ROWS, []), OUTPUT, changes_of(plan))
    pairs = dict(zip(found[::2], found[1::2], strict=True))
    assert (pairs["--model_name_or_path"], pairs["--max_steps"]) == ("/tmp/small", "2")
    assert pairs["--output_dir"] == str(OUTPUT)


def test_rows_are_as_many_as_the_steps_need() -> None:
    assert rows_of(on_the_cpu(per_device_train_batch_size=8, gradient_accumulation_steps=1)) == 16
    assert rows_of(on_the_cpu(per_device_train_batch_size=1)) == 8
    assert rows_of(on_the_cpu(per_device_train_batch_size=8, packing=True, max_length=1024)) == 82
    many = msgspec.structs.replace(on_the_cpu(per_device_train_batch_size=256).settings, processes=8)
    plan = msgspec.structs.replace(on_the_cpu(per_device_train_batch_size=256), settings=many)
    assert rows_of(plan) == 512
    assert untried(plan) == ["6 of 8 processes"]


def test_layers_that_an_adapter_names_by_number_are_those_of_the_small_model() -> None:
    """As in GPT-OSS's own recipe, which names three of its 24 layers."""
    names = ["7.mlp.experts.gate_up_proj", "15.mlp.experts.gate_up_proj", "model.layers.22.mlp.experts.3.down_proj"]
    plan = with_values(on_the_cpu(), lora_target_parameters=names, lora_target_modules=["q_proj", "all-linear"])
    found = renumbered(plan, 2)
    assert found == {"lora_target_parameters": ["1.mlp.experts.gate_up_proj", "model.layers.0.mlp.experts.3.down_proj"]}
    words = rehearsed_flags(plan, Staged({}, None, []), OUTPUT, found)
    assert words[2:] == ("--lora_target_parameters", *found["lora_target_parameters"])
