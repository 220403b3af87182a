"""Secrets in a plan reach the training process, and nothing else: no file of the run, no line on a terminal."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kerneltui.runs.directory import ACTIVE, RunDirectory
from tests.bad_input.command import Command, plan
from tests.waiting import until

HUB, FLAG, WANDB, NESTED, SHELL, KEY = (
    "hf_yamlyamlyaml", "flag-flag-flag", "wandbwandbwandb", "nested-nested", "hf_shellshellshell", "key-key-key",
)  # fmt: skip
SECRETS = (HUB, FLAG, WANDB, NESTED, SHELL, KEY)


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Plant a secret wherever there is a place for one, and return the arguments that name the plan."""
    plan(
        tmp_path / "c.yaml", hub_token=HUB, env={"WANDB_API_KEY": WANDB, "NCCL_DEBUG": "INFO"},
        model_init_kwargs={"token": NESTED, "attn_implementation": "sdpa"},
    )  # fmt: skip
    monkeypatch.setenv("HF_TOKEN", SHELL)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEY)
    return ["sft", "c.yaml", "--hub_token", FLAG]


@pytest.fixture
def interpreter(tmp_path: Path) -> Path:
    """Return what stands in for the training interpreter: it writes down what it was given."""
    path = tmp_path / "bin" / "python"
    path.parent.mkdir()
    path.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$@\" > '{tmp_path}/words'\nenv > '{tmp_path}/variables'\n")
    path.chmod(0o755)
    return path


def test_what_a_run_writes_and_says_holds_no_secret(
    kerneltui: Command, planted: list[str], interpreter: Path, tmp_path: Path
) -> None:
    told = kerneltui("launch", *planted, "--python", str(interpreter), "--runs-dir", "runs", "--name", "mine")
    assert told.code == 0, told.err
    run = RunDirectory(tmp_path / "runs" / "mine")
    until(lambda: run.read_state().phase not in ACTIVE)

    words, variables = (tmp_path / "words").read_text(), (tmp_path / "variables").read_text()
    assert f"--hub_token\n{FLAG}\n" in words
    assert {f"WANDB_API_KEY={WANDB}", f"HF_TOKEN={SHELL}"} <= set(variables.splitlines())
    assert "KERNELTUI_SECRETS" not in variables

    own = run.attempt(1) / "config.yaml"
    assert own.read_bytes() == (tmp_path / "c.yaml").read_bytes()
    assert own.stat().st_mode & 0o077 == 0
    said = [told.out, told.err, *kerneltui("runs", "--runs-dir", "runs", "--json")[1:]]
    written = [path.read_text() for path in run.path.rglob("*") if path.is_file() and path != own]
    places = Path(os.environ["XDG_STATE_HOME"]).rglob("*")
    written += [path.read_text() for path in places if path.is_file()]
    assert len(written) > 6
    assert [secret for secret in SECRETS for text in (*said, *written) if secret in text] == []
    assert "NCCL_DEBUG" in "".join(written)


@pytest.mark.parametrize(
    "arguments",
    [["check"], ["check", "--json"], ["export"], *(["export", "--as", form] for form in ("yaml", "python", "slurm"))],
    ids=" ".join,
)
def test_what_is_said_of_a_plan_holds_no_secret_and_no_mark_of_one(
    kerneltui: Command, planted: list[str], arguments: list[str]
) -> None:
    verb, *options = arguments
    said = kerneltui(verb, *planted, *options)
    assert said.code == 0, said.err
    assert [secret for secret in SECRETS if secret in said.out + said.err] == []
    # What is copied from here must not have the mark in the place of a value.
    assert "<hidden>" not in said.out
    assert "hub_token" in said.out
