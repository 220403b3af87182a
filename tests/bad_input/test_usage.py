"""Mistakes that are told before anything is imported."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from kerneltui.records import to_json
from kerneltui.runs.directory import ACTIVE
from kerneltui.runs.supervisor import start_supervisor
from tests.bad_input.command import NO_HUB_HINT, NOBODY, SERVER, real, told
from tests.runs.fakes import make_run
from tests.waiting import until

NAME_RULE = "A run name starts with a letter, a digit or _, and has only letters, digits, _, ., + and - (at most 64)."
PYTHON_HINT = "Give the interpreter or the folder of its virtual environment with --python."


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory with files that are not what they are given for; no other place is known to hold runs."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "broken.yaml").write_text("a: [1\nb: 3\n")
    (tmp_path / "on.yaml").write_text("on: 1\n")
    (tmp_path / "fine.yaml").write_text("max_steps: 2\n")
    (tmp_path / "notes.txt").write_text("not JSON")
    (tmp_path / "pyton.json").write_text('{"pyton": "3.11"}')
    (tmp_path / "newer.json").write_bytes(to_json({**msgspec.to_builtins(SERVER), "schema": 99}))
    (tmp_path / "noise").write_bytes(bytes(range(256)))
    (tmp_path / "noise").chmod(0o755)
    (tmp_path / "shell").write_text("#!/bin/sh\necho hello\necho 'no python module loaded' >&2\nexit 3\n")
    (tmp_path / "shell").chmod(0o755)
    (tmp_path / "calm-otter").mkdir()
    (tmp_path / "calm-otter" / "run.json").write_text("{}")
    return tmp_path


CHECK = ("check", "sft", "fine.yaml")
LAUNCH = ("launch", "sft", "fine.yaml", "--runs-dir", "runs")
CONFIG_HINT = "Give the path of a TRL configuration file (YAML)."
GPU_LINES = ("Each is one number, once.", "Give them in PCI bus order: --gpus 0,1")
RUNS_HINT = "Give --runs-dir, or the path of the run's directory."
USAGE = [
    (["check", "sft", "no.yaml"], "Cannot read {folder}/no.yaml", "No such file or directory", CONFIG_HINT),
    (["check", "sft", "no.yaml", "--json"], "Cannot read {folder}/no.yaml", "No such file or directory", CONFIG_HINT),
    (["check", "sft", "--config", "no.yaml"], "Cannot read {folder}/no.yaml", "No such file or directory", CONFIG_HINT),
    (["launch", "sft", "."], "Cannot read {folder}", "Is a directory", CONFIG_HINT),
    (
        ["launch", "sft", "broken.yaml", "--runs-dir", "runs"],
        "{folder}/broken.yaml is not YAML", "line 2, column 2: expected ',' or ']', but got ':'", "Correct that line.",
    ),
    (
        ["check", "sft", "on.yaml"],
        "{folder}/on.yaml has a key that is not text", "YAML reads it as True.",
        "Write the name of a setting, in quotes where YAML takes it for something else (on, off, yes, no).",
    ),
    (
        ["check", "sft", "fine.yaml", "--config=on.yaml"],
        "Two configuration files are given", "fine.yaml and on.yaml; TRL reads one.",
        "Give one file, and flags for what it does not say.",
    ),
    ([*LAUNCH, "--gpus", "x"], "'x' is no list of GPUs", *GPU_LINES),
    ([*CHECK, "--gpus", "-1"], "'-1' is no list of GPUs", *GPU_LINES),
    ([*CHECK, "--gpus", "0,0"], "'0,0' is no list of GPUs", *GPU_LINES),
    ([*LAUNCH, "--name", "a/b"], "'a/b' cannot name a run", NAME_RULE, "Give another name with --name."),
    ([*LAUNCH, "--name", ".."], "'..' cannot name a run", NAME_RULE, "Give another name with --name."),
    ([*LAUNCH, "--gpus", ""], "'' is no list of GPUs", *GPU_LINES),
    (["demo", "--gpus", "0,x"], "'0,x' is no list of GPUs", *GPU_LINES),
    (
        ["launch", "--waitt", "sft"],
        "A trainer comes first, not --waitt", "Flags of TRL stand behind the trainer and its configuration.",
        "Did you mean --wait?",
    ),
    (
        ["check", "--packing", "sft"],
        "A trainer comes first, not --packing", "Flags of TRL stand behind the trainer and its configuration.",
        "Write: kerneltui check TRAINER [CONFIG] [FLAGS]",
    ),
    (["demo", "--name", "../x"], "'../x' cannot name a run", NAME_RULE, "Give another name with --name."),
    (
        [*LAUNCH, "--python", "/no/such/python"],
        "No Python interpreter at /no/such/python", "/no/such/python is not an executable file.", PYTHON_HINT,
    ),
    (
        ["doctor", "--python", "."],
        "No Python interpreter at .", "{folder}/bin/python is not an executable file.", PYTHON_HINT,
    ),
    (
        [*LAUNCH, "--python", "noise"],
        "Cannot start {folder}/noise", "Exec format error", "Give another interpreter with --python.",
    ),
    (
        ["doctor", "--json", "--python", "shell"],
        "{folder}/shell does not work as a Python interpreter", "It ended (exit code 3) instead of starting run.py.",
        "no python module loaded", PYTHON_HINT,
    ),
    ([*CHECK, "--server", "no.json"], "Cannot read no.json", "No such file or directory", "Check the path."),
    (
        [*CHECK, "--server", "notes.txt"],
        "notes.txt is not JSON", "JSON is malformed: invalid character (byte 4)",
        "Write the file again, or name another.",
    ),
    (
        [*CHECK, "--server", "pyton.json"],
        "pyton.json does not fit", "Object contains unknown field `pyton`", "Did you mean python?",
    ),
    (
        [*CHECK, "--json", "--server", "newer.json"],
        "newer.json was written by a newer kerneltui", "It has schema 99; this version reads up to 1.",
        "Update kerneltui.",
    ),
    (
        ["stop", "calm-oter", "--runs-dir", "."],
        "No run 'calm-oter' in {folder}", "`kerneltui runs` lists them.", "Did you mean calm-otter?",
    ),
    (["watch", "gone"], "No run 'gone' in {folder}/kerneltui-runs", "`kerneltui runs` lists them.", RUNS_HINT),
    (["checkpoint", "../x"], "No run '../x' in {folder}/kerneltui-runs", "`kerneltui runs` lists them.", RUNS_HINT),
    (
        ["export", "sft", "--as", "pbs"],
        "No form 'pbs'", "There are shell, yaml, python, slurm.", "Choose one with --as.",
    ),
    (
        ["kernels", "flash-attn2"],
        "'flash-attn2' cannot be a kernel repository", "The owner is missing.",
        "Write owner/name, such as kernels-community/flash-attn2.",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "title", "lines"), [(case[0], case[1], case[2:]) for case in USAGE],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)  # fmt: skip
def test_what_cannot_be_used_is_told_at_once(
    folder: Path, arguments: list[str], title: str, lines: tuple[str, ...]
) -> None:
    before = sorted(folder.rglob("*"))
    expected = told(*(line.format(folder=folder) for line in (title, *lines)))
    assert real(*arguments, cwd=folder) == (2, "", expected)
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["chek", "sft"], "Error: No such command 'chek'."),
        (["doctor", "--jsn"], "Error: No such option"),
        (["check"], "Error: Missing argument 'TRAINER'."),
        (["demo", "--steps", "0"], "Error: Invalid value for '--steps': 0 is not in the range x>=1."),
        (["demo", "--steps", "x"], "Error: Invalid value for '--steps': 'x' is not a valid integer range."),
    ],
)
def test_a_command_that_is_not_one_gets_its_usage(tmp_path: Path, arguments: list[str], message: str) -> None:
    said = real(*arguments, cwd=tmp_path)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("Usage: kerneltui ")
    assert message in said.err
    assert "--help' for help." in said.err


def test_a_runs_directory_that_is_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("")
    expected = told(f"Cannot read {tmp_path}/runs", "Not a directory", "Choose another directory with --runs-dir.")
    assert real("runs", "--runs-dir", "runs", "--json", cwd=tmp_path) == (1, "", expected)


def test_without_a_hub_the_list_of_kernels_says_what_to_check(tmp_path: Path) -> None:
    expected = told("The Hub cannot be reached", f"{NOBODY}: [Errno 111] Connection refused", NO_HUB_HINT)
    assert real("kernels", "--json", cwd=tmp_path, HF_ENDPOINT=NOBODY) == (1, "", expected)


def test_an_ended_run_takes_no_requests(tmp_path: Path) -> None:
    run = make_run(
        tmp_path / "done", "end('failed', {'type': 'ValueError', 'message': 'bad row'}); raise SystemExit(1)"
    )
    (run.path / "run.json").write_text("{}")
    start_supervisor(run)
    until(lambda: run.read_state().phase not in ACTIVE)
    before = sorted(run.path.rglob("*"))
    for arguments in (["stop", "done"], ["stop", "done", "--now"], ["checkpoint", "done"]):
        expected = told("done is not running", "It is failed: ValueError: bad row.", "`kerneltui runs` lists all runs.")
        assert real(*arguments, "--runs-dir", ".", cwd=tmp_path) == (1, "", expected)
    followed = real("watch", "done", "--plain", "--runs-dir", ".", cwd=tmp_path)
    assert followed == (1, f"✖ done failed: ValueError: bad row  (log: {run.output(1)})\n", "")
    assert sorted(run.path.rglob("*")) == before
