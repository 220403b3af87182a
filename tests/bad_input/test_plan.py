"""Mistakes in a plan that the installed TRL tells."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.bad_input.command import FLASH, Command, blocked, plan, real, told, without_plan


def test_a_plan_without_mistakes_passes(kerneltui: Command, tmp_path: Path) -> None:
    plan(tmp_path / "c.yaml", attn_implementation=FLASH)
    said = kerneltui("check", "sft", "c.yaml", "--json")
    assert (said.code, said.err) == (0, "")
    assert json.loads(said.out)["will_run"]["attention"]["variant"] == "torch213-cxx11-cpu-x86_64-linux"


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_an_unknown_key_blocks_with_the_nearest_name(kerneltui: Command, tmp_path: Path, form: list[str]) -> None:
    plan(tmp_path / "c.yaml", packin=True)
    assert kerneltui("launch", "sft", "c.yaml", "--runs-dir", "runs", *form) == (
        1,
        "",
        blocked(
            "✖ TRL's sft has no field packin\n"
            "  Did you mean packing? TRL hands what it does not know to accelerate launch, which refuses it.\n"
            "  → Write packing instead of packin: packing: true; remove packin\n"
            "  → Remove packin\n"
            "  source: trl 1.16.0: scripts.sft.make_parser"
        ),
    )
    assert not (tmp_path / "runs").exists()
    said = kerneltui("check", "sft", "c.yaml", "--json")
    assert (said.code, said.err) == (1, "")
    assert [finding["id"] for finding in json.loads(said.out)["findings"]] == ["keys.unknown.packin"]


# Those of the command of TRL 1.16, then those of trl.experimental.
TRAINERS = (
    "distillation, dpo, grpo, kto, reward, rloo, sft, a2po, async_distillation, async_grpo, cpo, gkd, gmpo, gold, "
    "iw_opd, online_dpo, orpo, sdft, sdpo, server_distillation, tpo"
)


@pytest.mark.parametrize("command", [("check",), ("launch",), ("export", "--as", "python")])
def test_an_unknown_trainer_gets_the_nearest_name(kerneltui: Command, tmp_path: Path, command: tuple[str, ...]) -> None:
    plan(tmp_path / "c.yaml")
    verb, *options = command
    for trainer, hint in (("stf", "Did you mean sft?"), ("SFT", "Did you mean sft?"), ("x", "Choose one of them.")):
        assert kerneltui(verb, trainer, "c.yaml", *options) == (
            2, "",
            told(
                f"TRL has no trainer {trainer!r}",
                f"The installed one has {TRAINERS}.", hint,
            ),
        )  # fmt: skip
    assert not (tmp_path / "kerneltui-runs").exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            ["--dtype", "float33"],
            "argument --dtype: invalid choice: 'float33' (choose from 'auto', 'bfloat16', 'float16', 'float32')",
        ),
        (["--learning_rate", "x"], "argument --learning_rate/--learning-rate: invalid float value: 'x'"),
        (["--learning_rate"], "argument --learning_rate/--learning-rate: expected one argument"),
        (["--pack"], "ambiguous option: --pack could match --packing, --packing_strategy, --packing-strategy"),
        (["--num_processes", "x"], "argument --num_processes/--num-processes: invalid int value: 'x'"),
        (["--max_steps", "3", "more.yaml"], "'more.yaml' is neither a flag nor the value of one"),
        (
            ["--accelerate_config", "nope"],
            "Accelerate config nope is neither a file nor a valid config in the `trl` package. "
            "Please provide a valid config name or a path to a config file.",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_value_that_a_flag_cannot_have_is_told_in_trls_words(
    kerneltui: Command, tmp_path: Path, flags: list[str], message: str
) -> None:
    plan(tmp_path / "c.yaml")
    said = kerneltui("launch", "sft", "c.yaml", "--runs-dir", "runs", *flags)
    if sys.version_info >= (3, 12):  # argparse's wording of choices differs between releases of Python
        said, message = said._replace(err=said.err.replace("'", "")), message.replace("'", "")
    title = "TRL does not accept these arguments for sft"
    assert said == (2, "", told(title, message, "`trl sft --help` lists them all."))
    assert not (tmp_path / "runs").exists()


def test_the_real_command_refuses_a_plan_that_would_fail(tmp_path: Path) -> None:
    plan(tmp_path / "c.yaml", max_seq_length=512, attn_implementation="sdpa")
    said = real("launch", "sft", "c.yaml", "--runs-dir", "runs", "--name", "mine", cwd=tmp_path)
    assert (said.code, said.out) == (1, "")
    assert said.err.startswith(
        "✖ TRL's sft has no field max_seq_length\n"
        "  It is called max_length today. TRL hands what it does not know to accelerate launch, which refuses it.\n"
        "  → Write max_length instead of max_seq_length: max_length: 512; remove max_seq_length\n"
    )
    assert without_plan(said.err).endswith(blocked("✖ TRL's sft has no field max_seq_length").partition("\n\n")[2])
    assert "Traceback" not in said.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.yaml"]
