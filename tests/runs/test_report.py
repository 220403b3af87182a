"""The file to attach to an issue: what it holds, and that no secret is in it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from kerneltui.errors import KerneltuiError
from kerneltui.facts.server import HubAnswer, Server
from kerneltui.plan.plan import Plan
from kerneltui.plan.secrets import without_secrets
from kerneltui.records import from_json
from kerneltui.runs.directory import RunDirectory
from kerneltui.runs.masking import mask
from kerneltui.runs.report import run_report, server_report_text, write_report
from tests.advice.situations import H200, make_server
from tests.bad_input.command import real
from tests.runs.fakes import make_record, make_run
from tests.servers import recorded

# Made up; each is in the world in its own way.
FROM_ENVIRONMENT = "hf_environmentAAAAAAAAAAAAAAAA"
FROM_CACHE = "hf_cacheBBBBBBBBBBBBBBBBBBBBBBBB"
STORED = "oauth-stored-CCCCCCCCCC"
IN_CONFIG = "config-token-DDDDDDDDDD"
IN_VARIABLES = "wandb-key-EEEEEEEEEE"
IN_LOG = "hf_logFFFFFFFFFFFFFFFFFFFFFFFF"
BEARER = "bearerGGGGGGGGGGGG"
PASSWORD = "p@ss/wordHHHH"
SECRETS = (FROM_ENVIRONMENT, FROM_CACHE, STORED, IN_CONFIG, IN_VARIABLES, IN_LOG, BEARER, PASSWORD, "wordHHHH")
CONFIG = f"hub_token: {IN_CONFIG}\nenv:\n  WANDB_API_KEY: {IN_VARIABLES}\nlearning_rate: 1.0e-4\n"
LOG = f"""loading with {FROM_ENVIRONMENT}
the configuration says {IN_CONFIG} and {IN_VARIABLES}
found {IN_LOG} and {FROM_CACHE} and {STORED}
Authorization: Bearer {BEARER}
https://someone:{PASSWORD}@proxy.example:3128
{{'eos_token': '<|endoftext|>', 'loss': 1.25}}
"""


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    """Return a run that printed every secret there is."""
    run = make_run(tmp_path / "runs" / "calm-otter", "", phase="failed", reason=f"no access with {IN_CONFIG}")
    plan = Plan(trainer="sft", cwd="/work", config=CONFIG, flags=("--hub_token", IN_CONFIG, "--bf16", "true"))
    make_record(run, plan=without_secrets(plan), server=make_server(H200))
    (run.attempt(1) / "config.yaml").write_text(CONFIG)
    run.output(1).write_text("".join(f"line {number}\n" for number in range(300)) + LOG)
    run.events.write_text(f'{{"event": "process_end", "error": "denied: {IN_LOG}"}}\n')
    (run.path / "supervisor.log").write_text(f"{FROM_CACHE}\n")
    return run


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """Return the environment of a person who is logged in to the Hub twice."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "token").write_text(FROM_CACHE)
    (home / "stored_tokens").write_text(f"[mine]\nhf_token = {STORED}\n")
    return {"HF_HOME": str(home), "HF_TOKEN": FROM_ENVIRONMENT, "HTTPS_PROXY": f"http://me:{PASSWORD}@proxy.example"}


def test_no_secret_is_in_the_report_of_a_run(tmp_path: Path, run: RunDirectory, home: dict[str, str]) -> None:
    said = real("report", "calm-otter", "--runs-dir", "runs", cwd=tmp_path, **home)
    text = (tmp_path / "kerneltui-calm-otter.md").read_text()
    assert (said.code, said.out) == (0, f"Wrote {tmp_path / 'kerneltui-calm-otter.md'}\n")
    assert [secret for secret in SECRETS if secret in text + said.out + said.err] == []
    for part in ("learning_rate: 1.0e-4", "'eos_token': '<|endoftext|>', 'loss': 1.25", "line 299", "process_end"):
        assert part in text
    assert "NVIDIA H200" in text
    assert '"phase": "failed"' in text


def test_no_secret_is_in_the_report_of_a_server(tmp_path: Path, home: dict[str, str]) -> None:
    said = real("report", "--output", "server.md", "--json", cwd=tmp_path, **home)
    text = (tmp_path / "server.md").read_text()
    assert said.code == 0
    assert [secret for secret in SECRETS if secret in text + said.out + said.err] == []
    assert (tmp_path / "server.md").stat().st_mode & 0o777 == 0o600


def test_the_log_is_its_last_200_lines(run: RunDirectory) -> None:
    log = run_report(run).partition("its last lines")[2].partition("\n## ")[0]
    assert "line 299" in log
    assert "line 100\n" not in log
    assert len(log.splitlines()) == 204  # 200, the rest of the heading, an empty line and two fences


def test_the_server_in_it_can_be_read_back() -> None:
    server = recorded("h200")
    assert server.hub
    assert server.hub.token == "file"
    text = server_report_text(server)
    document = re.search(r"```json\n(.*?)\n```", text, re.DOTALL)
    assert document
    assert from_json(document[1].encode(), Server, "the report") == server


def test_a_run_that_cannot_be_read_is_told(run: RunDirectory) -> None:
    (run.path / "run.json").write_text("{")
    (run.path / "state.json").unlink()
    run.output(1).write_text("```\n# not a heading\n")
    text = run_report(run)
    assert "run.json is not JSON" in text
    assert "state.json" in text
    assert "````\n```\n# not a heading\n````" in text


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(KerneltuiError, match="Cannot write"):
        write_report("", tmp_path / "no" / "where.md")


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("--hub_token abcdefgh1", "--hub_token <hidden>"),
        ("WANDB_API_KEY=abcdefgh1 x", "WANDB_API_KEY=<hidden> x"),
        ('{"api_key": "abcdefgh1"}', '{"api_key": "<hidden>"}'),
        ("password: abcdefgh1", "password: <hidden>"),
        ("the token expired yesterday", "the token expired yesterday"),
        ("pad_token: <|endoftext|>", "pad_token: <|endoftext|>"),
        ("mean_token_accuracy: 0.123456789", "mean_token_accuracy: 0.123456789"),
        ("my secret is planted1", "my secret is <hidden>"),
    ],
)
def test_what_is_masked_and_what_stays(text: str, masked: str) -> None:
    assert mask(text, ["planted1"]) == masked


def test_the_owner_of_a_token_is_told_and_where_it_is() -> None:
    answer: Any = HubAnswer(endpoint="https://hub.example", token="environment", user="someone")
    text = server_report_text(make_server(H200, hub=answer))
    assert '"token": "environment"' in text
    assert "token of someone" in text
