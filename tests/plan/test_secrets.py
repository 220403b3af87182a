"""The plan without its secrets."""

from __future__ import annotations

import pytest
import yaml

from kerneltui.plan.plan import Launch, Plan
from kerneltui.plan.secrets import is_secret, leave_out, secret_names, without_secrets

CONFIG = """\
# my token is hf_commentcomment
hub_token: hf_filefilefile  # not mine
eos_token: <eos>
env:
  WANDB_API_KEY: 0123456789
  NCCL_DEBUG: INFO
learning_rate: 2e-5   # small
"""


@pytest.mark.parametrize("name", ["hub_token", "--hub-token", "HF_TOKEN", "WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY"])
def test_names_of_secrets(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize("name", ["eos_token", "pad_token", "max_completion_length", "include_num_input_tokens_seen"])
def test_names_of_other_settings(name: str) -> None:
    assert not is_secret(name)


def test_nothing_secret_is_left_and_the_rest_stays() -> None:
    plan = Plan(
        trainer="sft", cwd="/", config=CONFIG,
        flags=("--hub_token", "hf_flagflagflag", "--hub-token=hf_otherother", "--packing", "--note", "hf_looseloose"),
        launch=Launch(name="mine", environment={"HF_TOKEN": "hf_launchlaunch", "LOCAL_KERNELS": "a/b=/x"}),
    )  # fmt: skip
    found = without_secrets(plan)
    assert found.flags == ("--hub_token", "<hidden>", "--hub-token=<hidden>", "--packing", "--note", "hf_…")
    assert found.launch == Launch(name="mine", environment={"HF_TOKEN": "<hidden>", "LOCAL_KERNELS": "a/b=/x"})
    assert found.config is not None
    assert yaml.safe_load(found.config) == {
        "hub_token": "<hidden>", "eos_token": "<eos>", "learning_rate": "2e-5",
        "env": {"WANDB_API_KEY": "<hidden>", "NCCL_DEBUG": "INFO"},
    }  # fmt: skip
    assert "learning_rate: 2e-5   # small" in found.config
    assert "hf_comment" not in found.config


def test_a_plan_without_secrets_is_the_same_to_the_byte() -> None:
    text = "# mine\r\nlearning_rate: 2e-5   # small\r\nhub_token:\r\nenv: {A: b}\r\n"
    plan = Plan(trainer="sft", cwd="/", config=text, flags=("--packing",))
    assert without_secrets(plan) == plan
    assert without_secrets(Plan(trainer="sft", cwd="/")) == Plan(trainer="sft", cwd="/")


def test_a_flag_without_its_value() -> None:
    assert without_secrets(Plan(trainer="sft", cwd="/", flags=("--hub_token",))).flags == ("--hub_token",)


def test_secrets_inside_of_mappings_are_hidden_too() -> None:
    kept = "datasets:\n- {path: x, token: true}\n"
    config = f"model_init_kwargs: {{token: nested, dtype: bfloat16}}\n{kept}"
    plan = Plan(trainer="sft", cwd="/", config=config, flags=("--model_init_kwargs", '{"token": "flag"}'))
    found = without_secrets(plan)
    assert found.config == f"model_init_kwargs: {{token: <hidden>, dtype: bfloat16}}\n{kept}"
    assert found.flags == ("--model_init_kwargs", '{"token": "<hidden>"}')
    values = {"hub_token": "a", "model_init_kwargs": {"token": "b", "dtype": "c"}, "eos_token": "</s>"}
    assert list(secret_names(values)) == ["hub_token", "model_init_kwargs.token"]
    assert leave_out(values) == {"model_init_kwargs": {"dtype": "c"}, "eos_token": "</s>"}
