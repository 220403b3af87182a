"""What is written of a command, and how its supervisor gets the rest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kerneltui.errors import KerneltuiError
from kerneltui.runs.directory import ACTIVE, Command
from kerneltui.runs.handover import HANDED, handed, hidden_command, whole_command
from kerneltui.runs.supervisor import start_supervisor
from tests.runs.fakes import make_run
from tests.waiting import until

COMMAND = Command(
    argv=(
        "python", "--hub_token", "flagflag", "--hub-token=equals", "--note=hf_looseloose", "--packing",
        "--model_init_kwargs", '{"token": "inner", "dtype": "bfloat16"}',
    ),
    cwd="/work",
    environment={"WANDB_API_KEY": "wandb", "NOTE": "by hf_notenotenote", "NCCL_DEBUG": "INFO"},
)  # fmt: skip
PLAIN = Command(argv=("python", "--packing"), cwd="/work", environment={"NCCL_DEBUG": "INFO"})


def test_secrets_are_hidden_and_come_back() -> None:
    written = hidden_command(COMMAND)
    assert written.argv == (
        "python", "--hub_token", "<hidden>", "--hub-token=<hidden>", "--note=hf_…", "--packing",
        "--model_init_kwargs", '{"token": "<hidden>", "dtype": "bfloat16"}',
    )  # fmt: skip
    assert written.environment == {"WANDB_API_KEY": "<hidden>", "NOTE": "by hf_…", "NCCL_DEBUG": "INFO"}
    assert whole_command(written, handed(COMMAND)) == COMMAND


def test_a_command_without_secrets_is_written_as_it_is() -> None:
    assert hidden_command(PLAIN) == PLAIN
    assert handed(PLAIN) == {}
    assert whole_command(PLAIN, {}) == PLAIN


def test_a_variable_that_was_not_handed_over_is_taken_from_the_environment() -> None:
    command = Command(argv=("python",), cwd="/", environment={"WANDB_API_KEY": "wandb"})
    assert whole_command(hidden_command(command), {"WANDB_API_KEY": "mine"}).environment == {"WANDB_API_KEY": "mine"}


@pytest.mark.parametrize("given", [{}, {HANDED: "nonsense"}])
def test_a_command_never_runs_with_a_mark_in_the_place_of_a_secret(given: dict[str, str]) -> None:
    with pytest.raises(KerneltuiError) as raised:
        whole_command(hidden_command(COMMAND), given)
    assert raised.value.message == (
        "WANDB_API_KEY, NOTE, --hub_token, --hub-token, --note, --model_init_kwargs "
        "was known only to the supervisor that is gone"
    )


def test_a_run_whose_supervisor_was_lost_before_its_start_says_so(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", "")
    path = run.attempt(1) / "command.json"
    document = json.loads(path.read_bytes())
    path.write_text(json.dumps({**document, "argv": [*document["argv"], "--hub_token", "<hidden>"]}))
    start_supervisor(run)
    until(lambda: run.read_state().phase not in ACTIVE)
    assert run.read_state().reason == (
        "cannot start: secrets of its command are not written down: "
        "--hub_token was known only to the supervisor that is gone"
    )
