"""The command line as the README tells of it, and its exit codes."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import msgspec
import psutil
import pytest

from kerneltui.advice.assessment import Attention, WillRun
from kerneltui.advice.finding import Finding
from kerneltui.cli import app
from kerneltui.facts.server import Server
from kerneltui.records import read_record
from tests.bad_input.command import plan, real
from tests.hub import LoopbackHub
from tests.waiting import until

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
EXAMPLES = [
    words[1:]
    for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    for line in block.replace("\\\n", " ").splitlines()
    for command in line.split("&&")
    if (words := shlex.split(command, comments=True))[:1] == ["kerneltui"]
]
OPTIONS = re.findall(r"^\| `(--[\w-]+)", README, re.MULTILINE)


def options(command: click.Command) -> set[str]:
    """Return the names of a command's own options."""
    return {name for parameter in command.params for name in parameter.opts if name.startswith("--")}


def test_the_version_is_that_of_the_package(tmp_path: Path) -> None:
    assert real("--version", cwd=tmp_path) == (0, f"{version('kerneltui')}\n", "")


def test_help_names_every_verb_of_the_readme(tmp_path: Path) -> None:
    said = real("--help", cwd=tmp_path)
    assert (said.code, said.err) == (0, "")
    listed = re.findall(r"^  (\w+)  ", said.out.partition("Commands:\n")[2], re.MULTILINE)
    verbs = {words[0] for words in EXAMPLES}
    assert sorted(listed) == sorted(app.commands)
    assert set(listed) == verbs
    assert real("-h", cwd=tmp_path) == said


@pytest.mark.parametrize("verb", sorted(app.commands))
def test_every_verb_has_help_of_its_own(tmp_path: Path, verb: str) -> None:
    said = real(verb, "-h", cwd=tmp_path)
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith(f"Usage: kerneltui {verb} ")
    assert all(name in said.out for name in options(app.commands[verb]))


@pytest.mark.parametrize("words", EXAMPLES, ids=" ".join)
def test_the_examples_of_the_readme_are_commands(words: list[str]) -> None:
    command = app.commands[words[0]]
    context = command.make_context(words[0], list(words[1:]))  # raises for what it does not take
    given: tuple[str, ...] = context.params.get("arguments", ())
    assert not set(given) & {name for other in app.commands.values() for name in options(other)}


def test_the_readme_names_every_option_and_no_other() -> None:
    everywhere = set().union(*map(options, app.commands.values()))
    assert set(OPTIONS) <= everywhere
    assert len(OPTIONS) == len(set(OPTIONS))
    used = {word for words in EXAMPLES for word in words if word in everywhere}
    assert set(OPTIONS) | used == everywhere


def test_what_check_prints_has_the_keys_of_the_readme() -> None:
    told = README[README.index("`check` prints findings") :].partition("## What a run leaves")[0]
    for kind in (Finding, WillRun, Attention):
        assert [name for name in kind.__struct_fields__ if f'"{name}"' not in told] == []


def test_the_report_of_a_server_can_be_read_back(tmp_path: Path) -> None:
    said = real("doctor", "--json", "--runs-dir", "runs", cwd=tmp_path)
    assert (said.code, said.err) == (0, "")
    assert json.loads(said.out)["schema"] == 1
    (tmp_path / "server.json").write_text(said.out)
    server = read_record(tmp_path / "server.json", Server)
    assert json.loads(msgspec.json.encode(server)) == json.loads(said.out)
    assert server.packages["trl"].version == version("trl")
    assert not (tmp_path / "runs").exists()

    plan(tmp_path / "c.yaml")
    checked = real("check", "sft", "c.yaml", "--server", "server.json", "--json", cwd=tmp_path)
    assert (checked.code, checked.err) == (0, "")
    document = json.loads(checked.out)
    assert (document["schema"], document["findings"]) == (1, [])
    packages = {name: package.version for name, package in server.packages.items()}
    assert document["will_run"]["packages"] == packages


@pytest.mark.parametrize(
    ("arguments", "code", "keys"),
    [
        (["runs", "--json"], 0, ["elsewhere", "orphans", "runs"]),
        (["kernels", "--json"], 0, ["endpoint", "error", "repositories"]),
        (["kernels", "kernels-community/relu", "--json"], 0, ["card", "commits", "revisions", "row"]),
        (["kernels", "kernels-community/nope", "--json"], 1, None),
        (["kernels", "kernels-community/relu", "--all"], 2, None),
        (["kernels", "a/b/c", "--json"], 2, None),
        (["runs", "--runs-dir", "server.txt", "--json"], 1, None),
        (["nothing"], 2, None),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_exit_codes_and_json(
    tmp_path: Path, hub: LoopbackHub, arguments: list[str], code: int, keys: list[str] | None
) -> None:
    (tmp_path / "server.txt").write_text("")
    said = real(*arguments, cwd=tmp_path, **hub.environment())
    assert said.code == code
    if keys is None:
        assert said.out == ""
        assert said.err
    else:
        document = json.loads(said.out)
        assert (said.err, document["schema"], sorted(document)) == ("", 1, sorted([*keys, "schema"]))


def test_an_interrupt_ends_at_once_without_a_word_and_without_what_it_started(tmp_path: Path) -> None:
    plan(tmp_path / "c.yaml")
    command = [sys.executable, "-P", "-m", "kerneltui", "launch", "sft", "c.yaml"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    workers: list[Any] = until(lambda: psutil.Process(process.pid).children())
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err.strip()) == (130, "", "")
    until(lambda: not any(worker.is_running() for worker in workers), limit=20)
    assert [path.name for path in tmp_path.iterdir()] == ["c.yaml"]
