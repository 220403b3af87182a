from __future__ import annotations

from pathlib import Path

import pytest

from kerneltui.errors import UsageError
from kerneltui.plan.plan import Launch, Plan, make_plan


def test_a_configuration_is_kept_to_the_byte(tmp_path: Path) -> None:
    text = "# mine\r\nlearning_rate: 2e-5   # small\r\n\r\nname: 你好\n"
    (tmp_path / "c.yaml").write_bytes(text.encode())
    for arguments in (["c.yaml", "--packing"], ["--packing", "--config", "c.yaml"]):
        plan = make_plan("sft", arguments, cwd=tmp_path)
        assert (plan.config, plan.flags, plan.config_path) == (text, ("--packing",), "c.yaml")


def test_flags_alone_need_no_file(tmp_path: Path) -> None:
    plan = make_plan("sft", ["--learning_rate", "-1", "--packing"], cwd=tmp_path)
    assert (plan.config, plan.flags) == (None, ("--learning_rate", "-1", "--packing"))


NO_MAPPING = "{path} holds no settings\nA TRL configuration is a mapping: one `key: value` a line.\nCorrect the file."


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "Cannot read {path}\nNo such file or directory\nGive the path of a TRL configuration file (YAML)."),
        ("a: [1\nb: 3\n", "{path} is not YAML\nline 2, column 2: expected ',' or ']', but got ':'\nCorrect that line."),
        ("- a\n- b\n", NO_MAPPING),
        ("", NO_MAPPING),
    ],
    ids=["missing", "not YAML", "a list", "empty"],
)  # fmt: skip
def test_a_configuration_that_cannot_be_used_is_told(tmp_path: Path, content: str | None, message: str) -> None:
    path = tmp_path / "c.yaml"
    if content is not None:
        path.write_text(content)
    with pytest.raises(UsageError) as raised:
        make_plan("sft", ["c.yaml"], cwd=tmp_path)
    assert str(raised.value) == message.format(path=path)


def test_text_that_is_not_utf8_is_told(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_bytes(b"name: \xff\xfe\n")
    with pytest.raises(UsageError, match="is not UTF-8 text"):
        make_plan("sft", ["c.yaml"], cwd=tmp_path)


def test_config_without_a_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--config needs a file"):
        make_plan("sft", ["--config"], cwd=tmp_path)


def test_the_environment_of_a_plan_is_the_files_and_then_that_of_the_launch() -> None:
    config = "env:\n  A: 1\n  B: two\n  C: null\n  D: true\nlearning_rate: 1\n"
    plan = Plan(trainer="sft", cwd="/", config=config, launch=Launch(environment={"B": "3"}))
    assert plan.environment == {"A": "1", "B": "3", "C": "None", "D": "True"}


@pytest.mark.parametrize("config", [None, "", "a: [", "a: 1", "env: [1]", "env:", "env: {1: 2}"])
def test_a_plan_without_an_environment_that_can_be_read(config: str | None) -> None:
    assert Plan(trainer="sft", cwd="/", config=config).environment == {}
