"""The Python form of a plan does what the plan does."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kerneltui import demo
from kerneltui.errors import UsageError
from kerneltui.interpreter import Asker
from kerneltui.plan.forms import as_python, as_shell
from kerneltui.plan.plan import Launch
from tests.plan.cases import BASE, CASES, Case, comments, read

SCRIPT = """\
# The same training as: trl sft --config 'my config.yaml' --packing --attn_implementation kernels-community/flash-attn2
# Start it as trl does, in {cwd}: accelerate launch THIS_FILE
# A model that reads images needs its own class: AutoModelForImageTextToText.
from datasets import load_dataset
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained(
    'some/model',
    attn_implementation='kernels-community/flash-attn2',
    dtype='float32',
)
dataset = load_dataset('some/data')
trainer = SFTTrainer(
    model=model,
    args=SFTConfig(bf16=False, learning_rate=2e-05, packing=True),
    train_dataset=dataset['train'],
)
trainer.train()
trainer.save_model()
"""


def test_a_script_loads_the_model_on_its_kernel_and_trains_it(tmp_path: Path, asker: Asker) -> None:
    flags = ("--packing", "--attn_implementation", "kernels-community/flash-attn2")
    assert as_python(*read(Case("sft", BASE, flags), tmp_path, asker)) == SCRIPT.format(cwd=tmp_path)


def script(name: str, cwd: Path, asker: Asker) -> str:
    return as_python(*read(CASES[name], cwd, asker))


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("lora", ["model_args = ModelConfig(lora_r=4, lora_target_modules=['q_proj', 'v_proj'], use_peft=True)",
                  "    peft_config=get_peft_config(model_args),"]),
        ("quantization", ["model_args = ModelConfig(load_in_4bit=True, use_peft=True, dtype='bfloat16')",
                          "    model='some/model',", "model_init_kwargs={'dtype': 'bfloat16'}",
                          "    quantization_config=get_quantization_config(model_args),"]),
        ("accelerate", [": accelerate launch --num_processes 2 --num_processes 1 --mixed_precision no THIS_FILE"]),
        ("an accelerate configuration", ["accelerate_configs/zero2.yaml --main_process_port 29501 THIS_FILE"]),
        ("two data sets", ["dataset = get_dataset(\n    DatasetMixtureConfig(\n        datasets=[", "'fraction': 0.3",
                           "test_split_size=0.1", "    train_dataset=dataset['train'],",
                           "    eval_dataset=dataset['test'],"]),
        ("evaluation", ["    eval_dataset=dataset['validation'],"]),
        ("streaming", ["dataset = load_dataset('some/data', name='en', streaming=True)"]),
        ("options of the model", ["dtype='float32',\n    trust_remote_code=True,\n    device_map=None,"]),
        ("a revision", ["    model='some/model',", "'revision': 'v2'", "'attn_implementation': 'a/flash@v2'"]),
        ("reward", ["set_seed(7)  # the new head is drawn at random\n"
                    "model = AutoModelForSequenceClassification.from_pretrained('some/model', num_labels=1,"]),
        ("reward functions", ["sys.path.insert(0, os.getcwd())",
                              "    importlib.import_module('my_lib.rewards').custom,\n",
                              "    get_soft_overlong_punishment(max_completion_len=1280, soft_punish_cache=256),",
                              "    reward_funcs=reward_funcs,"]),
        ("a reward model", ["reward_funcs = ['a/judge']", "    model='some/model',",
                            "model_init_kwargs={'attn_implementation': 'sdpa', 'dtype': 'float32'}"]),
        ("distillation", ["    teacher_model='some/teacher',", "teacher_model_init_kwargs={'dtype': 'auto'}"]),
        ("environment", ["import os\n\n# Before torch and kernels are imported.\nos.environ.update(\n",
                         "'HF_HUB_OFFLINE': '1'", "'SOME': 'a b'", "'CUDA_VISIBLE_DEVICES': '0,2'"]),
        ("pushing and resuming", ["trainer.train(resume_from_checkpoint='out/checkpoint-3')",
                                  "trainer.push_to_hub(dataset_name='some/data')"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_what_the_command_does_the_script_does(tmp_path: Path, asker: Asker, name: str, parts: list[str]) -> None:
    text = script(name, tmp_path, asker)
    assert [part for part in parts if part not in text] == [], text


def test_what_only_the_command_does_is_said_at_the_top_of_the_script(tmp_path: Path, asker: Asker) -> None:
    flags = ("--ignore_bias_buffers", "--nonsense", "3", "--model_revision", "v2", "--multi_gpu")
    text = as_python(*read(Case("dpo", BASE, flags), tmp_path, asker))
    assert comments(text)[1:] == [
        f"# Start it as trl does, in {tmp_path}: accelerate launch --multi_gpu THIS_FILE",
        "# TRL loads the model here, so that what else it loads is of the same revision and kind.",
        "# Left out: nonsense. Neither TRL nor accelerate launch knows them.",
        "# Left out: ignore_bias_buffers. Only the script behind the trl command has them.",
    ]


@pytest.mark.parametrize(
    ("trainer", "flags", "message"),
    [
        ("sft", (), "No model is named\nGive model_name_or_path: a folder or a Hub name."),
        ("sft", ("--model_name_or_path", "a/b"), "No data is named\nGive dataset_name or datasets."),
        (
            "grpo", ("--model_name_or_path", "a/b", "--dataset_name", "c/d", "--reward_funcs", "my-reward"),
            "No reward function 'my-reward'\nGive its name in TRL, or module.function.",
        ),
    ],
    ids=["model", "data", "reward"],
)  # fmt: skip
def test_there_is_no_script_without_what_it_needs(
    tmp_path: Path, asker: Asker, trainer: str, flags: tuple[str, ...], message: str
) -> None:
    with pytest.raises(UsageError) as raised:
        as_python(*read(Case(trainer, None, flags), tmp_path, asker))
    assert str(raised.value) == message


# What the scripts import and the keywords that they give, held against the installed packages.
CHECK = """
import dataclasses, importlib, inspect, json, sys
names, calls = json.load(sys.stdin)
wrong = [f"{module}.{name}" for module, name in names if not hasattr(importlib.import_module(module), name)]
import trl
for name, keywords in calls:
    kind = getattr(trl, name)
    known = {f.name for f in dataclasses.fields(kind) if f.init} if dataclasses.is_dataclass(kind) else set(
        inspect.signature(kind).parameters)
    wrong += [f"{name}({keyword}=)" for keyword in keywords if keyword not in known]
print(json.dumps(wrong))
"""


def test_every_name_and_every_argument_of_the_scripts_exists(tmp_path: Path, asker: Asker) -> None:
    names: set[tuple[str, str]] = set()
    calls: list[tuple[str, list[str]]] = []
    for name in CASES:
        tree = ast.parse(script(name, tmp_path, asker))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                names |= {(node.module or "", alias.name) for alias in node.names}
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                calls.append((node.func.id, [keyword.arg or "**" for keyword in node.keywords]))
    of_trl = {name for module, name in names if module == "trl"}
    asked = [list(names), [call for call in calls if call[0] in of_trl]]
    done = subprocess.run(
        [sys.executable, "-c", CHECK], input=json.dumps(asked), capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout.splitlines()[-1]) == []
    assert {"SFTTrainer", "GRPOTrainer", "get_quantization_config", "DatasetMixtureConfig"} <= of_trl


TRAINED = {
    "sft": Case("sft", {"attn_implementation": demo.ATTENTION, "packing": True, "max_length": 128}),
    "sft with LoRA": Case("sft", {"use_peft": True, "lora_r": 4, "lora_target_modules": ["q_proj", "v_proj"]}),
    "sft of a revision": Case("sft", {"model_revision": "v1"}),
    "dpo": Case("dpo", {"attn_implementation": demo.ATTENTION}),
    "kto": Case("kto", {}),
    "reward": Case("reward", {"seed": 5}),
    "grpo": Case(
        "grpo",
        {"reward_funcs": ["my_rewards.length"], "num_generations": 2, "max_completion_length": 8, "beta": 0.1},
    ),
    "rloo": Case("rloo", {"reward_funcs": ["my_rewards.length"], "num_generations": 2, "max_completion_length": 8}),
    "distillation": Case(
        "distillation", {"teacher_model_name_or_path": str(demo.model_path()), "max_completion_length": 8}
    ),
}


def test_a_trainer_without_a_trl_command_is_started_by_kerneltui(asker: Asker, tmp_path: Path) -> None:
    plan, settings = read(Case("orpo", BASE, ()), tmp_path, asker)
    assert as_shell(plan).endswith("&& kerneltui launch orpo --config 'my config.yaml'\n")
    with pytest.raises(UsageError, match="There is no Python form of orpo"):
        as_python(plan, settings)


@pytest.mark.full
@pytest.mark.parametrize("case", TRAINED.values(), ids=TRAINED)
def test_the_script_and_the_trl_command_log_the_same(tmp_path: Path, asker: Asker, case: Case) -> None:
    assert case.config is not None
    config = {
        "model_name_or_path": str(demo.model_path()),
        "datasets": [{"path": "json", "data_files": str(demo.data_path(case.trainer))}],
        "use_cpu": True, "dataloader_pin_memory": False, "bf16": False, "max_steps": 2, "save_steps": 2,
        "logging_steps": 1, "per_device_train_batch_size": 4, "learning_rate": 0.01, "report_to": "none",
        "gradient_checkpointing": False, "output_dir": "out", **case.config,
    }  # fmt: skip
    environment = {"LOCAL_KERNELS": demo.local_kernels(None), "HF_HUB_OFFLINE": "1"}
    logs = []
    for way in ("script", "command"):
        folder = tmp_path / way
        folder.mkdir()
        (folder / "my_rewards.py").write_text(
            "def length(completions, **_):\n    return [float(len(str(completion))) for completion in completions]\n"
        )
        plan, settings = read(case._replace(config=config, launch=Launch(environment=environment)), folder, asker)
        if way == "script":
            (folder / "train.py").write_text(as_python(plan, settings))
            command = [sys.executable, "train.py"]
        else:
            command = ["sh", "-c", as_shell(plan)]
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        done = subprocess.run(
            command, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, done.stderr[-3000:]
        state = json.loads((folder / "out" / "checkpoint-2" / "trainer_state.json").read_text())
        logs.append([{n: v for n, v in line.items() if n in ("step", "loss", "grad_norm", "reward")}
                     for line in state["log_history"]])  # fmt: skip
    assert [sorted(line) for line in logs[0]] == [
        ["grad_norm", "loss", *(["reward"] if "reward" in logs[1][0] else []), "step"]
    ] * 2
    assert logs[0] == [pytest.approx(line) for line in logs[1]]
