"""The forms of a plan mean the same plan to a shell and to TRL's own parser."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import yaml

from kerneltui.interpreter import Asker
from kerneltui.plan.forms import as_python, as_shell, as_yaml
from kerneltui.plan.plan import Launch, Plan, make_plan
from kerneltui.plan.settings import read_settings
from tests.plan.cases import BASE, CASES, Case, comments, each, planned, read


@each
def test_a_shell_runs_the_command_that_was_planned(tmp_path: Path, case: Case) -> None:
    folder, tools = tmp_path / "it's here", tmp_path / "bin"
    folder.mkdir()
    tools.mkdir()
    (tools / "trl").write_text(
        f"#!{sys.executable}\nimport json, os, sys\nprint(json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]))\n"
    )
    (tools / "trl").chmod(0o755)
    plan = planned(case, folder)
    text = as_shell(plan)
    done = subprocess.run(
        ["sh", "-c", text], env={"PATH": f"{tools}:{os.environ['PATH']}"}, cwd="/", capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    (trainer, *arguments), cwd, environment = json.loads(done.stdout)
    assert make_plan(trainer, arguments, cwd=Path(cwd), launch=case.launch) == plan
    expected = dict(case.launch.environment)
    if case.launch.gpus:
        expected |= {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "0,2"}
    assert expected.items() <= environment.items()
    words = shlex.split(text)
    assert (words[:3], words[3 + len(expected) :]) == (["cd", str(folder), "&&"], ["trl", trainer, *arguments])


def test_a_command_whose_configuration_is_in_no_file_says_where_to_put_it() -> None:
    plan = Plan(trainer="sft", cwd="/work", config="max_steps: 2\n")
    assert as_shell(plan) == (
        "# Save the configuration (--as yaml) as config.yaml in /work first.\n"
        "cd /work && trl sft --config config.yaml\n"
    )


SECRET = Case(
    "sft", {**BASE, "env": {"WANDB_API_KEY": "k3y"}}, ("--hub_token", "hf_x", "--hub-token=hf_y", "--packing")
)


def test_no_form_that_is_made_anew_holds_a_secret(tmp_path: Path, asker: Asker) -> None:
    plan, settings = read(SECRET, tmp_path, asker)
    shell, configuration, script = as_shell(plan), as_yaml(plan, settings), as_python(plan, settings)
    for text in (shell, configuration, script):
        assert not any(secret in text for secret in ("hf_x", "hf_y", "k3y", "<hidden>"))
    assert comments(shell) == ["# Left out, since secret: --hub_token, --hub-token. Set them where it runs."]
    left_out = "# Left out, since secret: hub_token, WANDB_API_KEY. Set them where it runs."
    assert left_out in comments(configuration)
    assert left_out in comments(script)
    assert shell.endswith("trl sft --config 'my config.yaml' --packing\n")
    compile(script, "script.py", "exec")


def test_settings_with_token_in_their_name_are_no_secrets(tmp_path: Path, asker: Asker) -> None:
    flags = ("--eos_token", "<eos>", "--include_num_input_tokens_seen", "yes", "--pad-token", "<pad>")
    plan, settings = read(Case("sft", BASE, flags), tmp_path, asker)
    assert as_shell(plan).endswith(f"{shlex.join(flags)}\n")
    assert yaml.safe_load(as_yaml(plan, settings))["eos_token"] == "<eos>"
    assert "eos_token='<eos>'" in as_python(plan, settings)


def test_a_file_to_which_nothing_is_added_stays_as_it_is(tmp_path: Path, asker: Asker) -> None:
    text = "# mine\r\nlearning_rate: 2e-5   # small\r\nmodel_name_or_path: 你好\r\n"
    (tmp_path / "c.yaml").write_bytes(text.encode())
    plan = make_plan("sft", ["c.yaml"], cwd=tmp_path)
    assert as_yaml(plan, read_settings(plan, asker)) == text


@each
def test_trl_reads_the_file_as_it_reads_the_command_line(tmp_path: Path, asker: Asker, case: Case) -> None:
    plan, settings = read(case, tmp_path, asker)
    text = as_yaml(plan, settings)
    (tmp_path / "new.yaml").write_text(text)
    again = read_settings(make_plan(case.trainer, ["new.yaml"], cwd=tmp_path), asker)
    assert again.values == settings.values
    assert again.accelerate == settings.accelerate
    assert set(again.given) == set(settings.given)
    assert (again.unknown, again.errors) == ((), settings.errors)
    if case.config is not None and (case.flags or case.launch != Launch()):
        assert comments(text) == ["# From my config.yaml and what was added to it, without its comments."]


def test_variables_and_gpus_go_into_the_files_own_environment(tmp_path: Path, asker: Asker) -> None:
    plan, settings = read(CASES["environment"], tmp_path, asker)
    assert yaml.safe_load(as_yaml(plan, settings))["env"] == {
        "LOCAL_KERNELS": "a/b=/my path", "SOME": "a b", "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "0,2", "HF_HUB_OFFLINE": 1,
    }  # fmt: skip
    alone, settings = read(Case(launch=Launch(gpus=(1,))), tmp_path, asker)
    assert yaml.safe_load(as_yaml(alone, settings)) == {
        "env": {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "1"}, **BASE, "learning_rate": 2e-5,
    }  # fmt: skip


def test_what_a_file_cannot_hold_is_said_at_its_top(tmp_path: Path, asker: Asker) -> None:
    case = Case("sft", {**BASE, "max_seq_length": 5}, ("--multi_gpu", "--nonsense", "3", "--num_processes", "2"))
    plan, settings = read(case, tmp_path, asker)
    text = as_yaml(plan, settings)
    assert comments(text) == [
        "# From my config.yaml and what was added to it, without its comments.",
        "# Left out: --multi_gpu. These switches of accelerate work on the command line only.",
        "# Left out: nonsense. Neither TRL nor accelerate launch knows them.",
    ]
    assert yaml.safe_load(text) == {**BASE, "learning_rate": 2e-5, "max_seq_length": 5, "num_processes": 2}
