"""Options of ours that are written wrongly, among the flags of TRL."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bad_input.command import Command, plan, told


@pytest.mark.parametrize(
    ("verb", "flags", "written", "hint"),
    [
        ("launch", ["--nmae", "x"], "--nmae", "Did you mean --name?"),
        ("launch", ["--waitt"], "--waitt", "Did you mean --wait?"),
        ("launch", ["--runs_dir=x"], "--runs_dir", "Did you mean --runs-dir?"),
        ("launch", ["--max_steps", "3", "--Force"], "--Force", "Did you mean --force?"),
        (
            "check",
            ["--runs_dir", "x"],
            "--runs_dir",
            "It is an option of doctor, launch, demo, runs, watch, stop, checkpoint, resume, compare, tag, delete, "
            "report.",
        ),
        ("check", ["--force"], "--force", "It is an option of launch."),
        ("export", ["--pyton", "x"], "--pyton", "Did you mean --python?"),
    ],
)
def test_an_option_of_ours_is_not_taken_for_a_field_of_trl(
    kerneltui: Command, tmp_path: Path, verb: str, flags: list[str], written: str, hint: str
) -> None:
    plan(tmp_path / "c.yaml")
    said = kerneltui(verb, "sft", "c.yaml", *flags)
    assert said == (2, "", told(f"No such option {written}", "TRL's sft has no such field either.", hint))
    assert [path.name for path in tmp_path.iterdir()] == ["c.yaml"]


@pytest.mark.parametrize("flag", ["--run_nmae", "--loging_steps"])
def test_a_flag_that_is_nearer_to_a_field_stays_one_of_trl(kerneltui: Command, tmp_path: Path, flag: str) -> None:
    plan(tmp_path / "c.yaml")
    said = kerneltui("check", "sft", "c.yaml", flag, "3", "--json")
    assert (said.code, said.err) == (1, "")
    assert f"keys.unknown.{flag[2:]}" in [finding["id"] for finding in json.loads(said.out)["findings"]]


def test_an_export_says_what_would_block_and_is_made_all_the_same(kerneltui: Command, tmp_path: Path) -> None:
    plan(tmp_path / "c.yaml")
    sentence = ["It would be blocked on this server", "TRL's sft has no field paking", "`kerneltui check` says why."]
    said = kerneltui("export", "sft", "c.yaml", "--paking", "yes")
    assert said == (0, f"cd {tmp_path} && trl sft --config c.yaml --paking yes\n", told(*sentence))
    said = kerneltui("export", "sft", "c.yaml", "--paking", "yes", "--as", "yaml")
    assert (said.code, said.err) == (0, told(*sentence))
    fine = kerneltui("export", "sft", "c.yaml", "--packing")
    assert fine == (0, f"cd {tmp_path} && trl sft --config c.yaml --packing\n", "")
