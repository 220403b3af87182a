"""The adapter's reading of a command line against that of the real `trl` command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kerneltui import demo
from kerneltui.facts.model import read_model
from kerneltui.interpreter import Asker, find_interpreter

CONFIG = """\
model_name_or_path: some/model
dataset_name: some/data
learning_rate: 2e-5
bf16: false
num_processes: 2
accelerate_config: multi_gpu
env:
  SOME_VARIABLE: value
"""

# Runs the real command with accelerate's launch replaced by a printer of what it was given.
REAL = """
import json, sys
import trl.cli.accelerate_launcher as launcher
def launch(script_name, launch_args, training_script_args):
    print(json.dumps([script_name, [str(a) for a in launch_args], training_script_args]))
launcher.launch_training_script = launch
from trl.cli.main import main
main(sys.argv[1:])
"""

CASES = [
    ["--output_dir", "x"],
    ["--learning_rate", "1e-4", "--num_processes", "1", "--bf16", "false"],
    ["--main_process_port", "29501", "--gradient_accumulation_steps", "4", "--mixed_precision", "no"],
]


@pytest.fixture(scope="module")
def asker() -> Iterator[Asker]:
    with Asker(find_interpreter()) as asker:
        yield asker


def _ours(asker: Asker, config: Path | None, flags: list[str], trainer: str = "sft", **more: Any) -> dict[str, Any]:
    answer = asker.ask(
        "trl.parse", trainer=trainer, config=str(config) if config else None, flags=flags, cwd="/", **more
    )
    assert isinstance(answer, dict)
    return answer


@pytest.mark.parametrize("flags", CASES)
def test_arguments_are_split_as_the_trl_command_splits_them(asker: Asker, tmp_path: Path, flags: list[str]) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG)
    real = subprocess.run(
        [sys.executable, "-c", REAL, "sft", "--config", str(config), *flags],
        capture_output=True,
        text=True,
        check=True,
    )
    script, launch_arguments, script_arguments = json.loads(real.stdout.splitlines()[-1])
    ours = _ours(asker, config, flags)
    assert script == "sft.py"
    assert ours["launch_arguments"] == launch_arguments
    assert ["--config", str(config), *ours["script_flags"]] == script_arguments


def test_values_unknown_keys_and_accelerate_arguments_are_told_apart(asker: Asker, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG + "max_seq_length: 512\n")
    ours = _ours(asker, config, ["--nonsense", "3", "--packing"])
    assert ours["unknown"] == ["max_seq_length", "nonsense"]
    assert ours["values"]["learning_rate"] == 2e-5
    assert ours["values"]["dtype"] == "float32"
    assert ours["accelerate"]["num_processes"] == 2
    assert {"learning_rate", "packing", "bf16", "model_name_or_path", "dataset_name"} == set(ours["given"])
    assert ours["config_class"] == "SFTConfig"
    assert ours["owners"]["packing"] == "SFTConfig"


def test_the_environment_of_a_configuration_does_not_stay_in_the_asker(asker: Asker, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("env: {HF_HUB_OFFLINE: nonsense}\nmodel_name_or_path: /no/such/model\n")
    _ours(asker, config, [])
    assert "nonsense" not in json.dumps(asker.ask("transformers.model", path="/no/such/model", cwd="/"))


def test_what_trl_itself_refuses_is_told_with_its_field(asker: Asker) -> None:
    flags = ["--per_device_train_batch_size", "2"]
    (error,) = _ours(asker, None, flags, trainer="grpo")["errors"]
    assert error["field"] == "generation_batch_size"
    assert _ours(asker, None, flags, trainer="grpo", devices=4)["errors"] == []
    assert _ours(asker, None, ["--dtype", "float33"])["error"].startswith("argument --dtype: invalid choice: 'float33'")


def test_tokens_are_not_handed_over(asker: Asker) -> None:
    ours = _ours(asker, None, ["--hub_token", "hf_secret", "--eos_token", "<eos>"])
    assert "hf_secret" not in json.dumps(ours["values"])
    assert ours["values"]["eos_token"] == "<eos>"


# Prints how many processes the launcher would start that the real command chose, for each case of flags and GPUs.
REAL_LAUNCH = """
import json, sys
import torch
from accelerate.commands import launch
from trl.cli.main import main
for name in ("simple_launcher", "multi_gpu_launcher", "deepspeed_launcher", "tpu_launcher"):
    def start(arguments, *rest, alone=name == "simple_launcher"):
        started.append(1 if alone else int(arguments.num_processes))
    setattr(launch, name, start)
for flags, devices in json.loads(sys.argv[1]):
    started = []
    torch.cuda.device_count, torch.cuda.is_available = lambda: devices, lambda: devices > 0
    try:
        main(["sft", *flags])
    except (Exception, SystemExit) as error:
        started = [type(error).__name__]
    print(json.dumps(started[0]))
"""
NEEDED = ["--output_dir", "x", "--use_cpu", "true", "--bf16", "false"]
LAUNCHES = [
    (flags, devices)
    for devices in (0, 1, 2, 8)
    for flags in (
        *([], ["--num_processes", "1"], ["--num_processes", "4"], ["--gpu_ids", "0,1"], ["--cpu"]),
        *(["--accelerate_config", name] for name in ("single_gpu", "multi_gpu", "zero3", "fsdp2")),
        *(["--accelerate_config", "multi_gpu", "--num_processes", "2"], ["--multi_gpu", "--num_processes", "1"]),
        *(["--config_file", "no.yaml"], ["--num_processes", "8", "--num_machines", "2", "--multi_gpu"]),
    )
]


@pytest.mark.full
@pytest.mark.parametrize("default", [None, {"distributed_type": "MULTI_GPU", "num_processes": 3}])
def test_as_many_processes_as_accelerate_launch_starts(tmp_path: Path, default: dict[str, Any] | None) -> None:
    if default:
        (tmp_path / "accelerate").mkdir()
        (tmp_path / "accelerate" / "default_config.yaml").write_text(json.dumps(default))
    command = [sys.executable, "-c", REAL_LAUNCH, json.dumps([(flags + NEEDED, count) for flags, count in LAUNCHES])]
    environment = {**os.environ, "HF_HOME": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    real = [json.loads(line) for line in done.stdout.splitlines() if line.startswith(('"', *"0123456789"))]
    with Asker(find_interpreter(), environment={"HF_HOME": str(tmp_path)}) as asker:
        ours = [_ours(asker, None, flags + NEEDED, devices=count) for flags, count in LAUNCHES]
    told = [it.get("processes", it.get("error", "").partition(":")[0]) for it in ours]
    refused = {"FileNotFoundError", "ValueError"}
    expected = ["accelerate launch refuses" if count in refused else count for count in real]
    assert dict(zip(map(str, LAUNCHES), told, strict=True)) == dict(zip(map(str, LAUNCHES), expected, strict=True))


def test_machines_of_a_configuration_of_accelerate(asker: Asker, tmp_path: Path) -> None:
    config = {"distributed_type": "MULTI_GPU", "num_processes": 16, "num_machines": 2, "machine_rank": 0}
    (tmp_path / "accelerate.yaml").write_text(json.dumps(config))
    ours = _ours(asker, None, ["--config_file", str(tmp_path / "accelerate.yaml")], devices=8)
    assert (ours["processes"], ours["machines"]) == (16, 2)


def test_files_of_another_machine_are_not_needed_here(asker: Asker) -> None:
    flags = ["--config_file", "/there/accelerate.yaml"]
    assert "refuses" in _ours(asker, None, flags, devices=4)["error"]
    assert _ours(asker, None, flags, devices=4, elsewhere=True)["processes"] == 4
    assert _ours(asker, None, [*flags, "--num_processes", "2"], devices=4, elsewhere=True)["processes"] == 2


def _model(folder: Path, **config: Any) -> str:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)


def test_a_model_is_counted_without_memory_for_it(asker: Asker, tmp_path: Path) -> None:
    """The published sizes: 596 million for the geometry of Qwen3-0.6B, 30.5 billion for that of Qwen3-30B-A3B."""
    qwen: dict[str, Any] = {"num_attention_heads": 16, "head_dim": 128, "vocab_size": 151936}
    small = {**qwen, "num_hidden_layers": 28, "hidden_size": 1024, "num_key_value_heads": 8, "intermediate_size": 3072}
    large = {**qwen, "num_hidden_layers": 48, "hidden_size": 2048, "num_attention_heads": 32, "num_key_value_heads": 4}
    experts = {"num_experts": 128, "moe_intermediate_size": 768}
    dense = _model(
        tmp_path / "dense", architectures=["Qwen3ForCausalLM"], model_type="qwen3", tie_word_embeddings=True, **small
    )
    moe = _model(tmp_path / "moe", architectures=["Qwen3MoeForCausalLM"], model_type="qwen3_moe", **large, **experts)
    found = read_model(asker, dense, tmp_path)
    assert (found.parameters, found.head, found.experts) == (596_049_920, "lm_head", ())
    assert set(found.linear) == {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}
    assert set(found.linear.values()) == {28}
    found = read_model(asker, moe, tmp_path)
    assert (found.parameters, found.experts) == (30_532_122_624, ("mlp.experts.down_proj", "mlp.experts.gate_up_proj"))
    unknown = read_model(asker, _model(tmp_path / "other", architectures=["NoSuch"], model_type="llama"), tmp_path)
    assert (unknown.parameters, unknown.linear, unknown.head) == (None, {}, None)


def test_a_chat_template_is_seen(asker: Asker, tmp_path: Path) -> None:
    assert read_model(asker, str(demo.model_path()), tmp_path).chat_template is True
    base = _model(tmp_path / "base", architectures=["LlamaForCausalLM"], model_type="llama")
    assert read_model(asker, base, tmp_path).chat_template is False
    (tmp_path / "base" / "tokenizer_config.json").write_text('{"chat_template": "{{ messages }}"}')
    assert read_model(asker, base, tmp_path).chat_template is True
