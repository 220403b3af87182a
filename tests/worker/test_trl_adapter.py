"""The adapter's reading of a command line against that of the real `trl` command."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

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
    assert _ours(asker, None, flags, trainer="grpo", processes=4)["errors"] == []
    assert _ours(asker, None, ["--dtype", "float33"])["error"].startswith("argument --dtype: invalid choice: 'float33'")


def test_tokens_are_not_handed_over(asker: Asker) -> None:
    ours = _ours(asker, None, ["--hub_token", "hf_secret", "--eos_token", "<eos>"])
    assert "hf_secret" not in json.dumps(ours["values"])
    assert ours["values"]["eos_token"] == "<eos>"
