"""Models and data that are not there, or are not what they should be."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bad_input.command import Command, blocked, plan, told
from tests.hub import LoopbackHub

MODEL_HINT = "Check model_name_or_path (a folder or a Hub name)."


@pytest.mark.parametrize(
    ("model", "lines"),
    [
        (
            "empty",
            (
                "No config.json in empty", "A model folder holds config.json beside its weights.",
                "Give the folder that save_pretrained wrote, or a checkpoint-N folder inside it.",
            ),
        ),
        ("./gone", ("No model folder at ./gone", "{folder}/gone does not exist.", MODEL_HINT)),
        ("gone/", ("No model folder at gone/", "{folder}/gone does not exist.", MODEL_HINT)),
        ("/no/such", ("No model folder at /no/such", "/no/such does not exist.", MODEL_HINT)),
        ("c.yaml", ("No model folder at c.yaml", "{folder}/c.yaml is a file.", MODEL_HINT)),
        (5, ("model_name_or_path is not text", "YAML reads it as 5.", "Give a folder or the name of a model.")),
    ],
    ids=["no config.json", "relative", "slash", "absolute", "a file", "a number"],
)  # fmt: skip
def test_a_model_that_is_not_there_is_told(
    kerneltui: Command, tmp_path: Path, model: object, lines: tuple[str, ...]
) -> None:
    (tmp_path / "empty").mkdir()
    plan(tmp_path / "c.yaml", model_name_or_path=model)
    expected = told(*(line.format(folder=tmp_path) for line in lines))
    assert kerneltui("launch", "sft", "c.yaml", "--runs-dir", "runs") == (2, "", expected)
    assert not (tmp_path / "runs").exists()


def test_a_model_that_the_hub_does_not_have_blocks(
    kerneltui: Command, hub_of_asker: LoopbackHub, tmp_path: Path
) -> None:
    plan(tmp_path / "c.yaml", model_name_or_path="org/nothing")
    assert kerneltui("launch", "sft", "c.yaml", "--runs-dir", "runs") == (
        1,
        "",
        blocked(
            "✖ No model org/nothing on the Hub, or it is private (401)\n"
            "  Nor is it a folder here. Without a login the Hub tells the two apart for nobody. "
            "Client error '401 Unauthorized' for url "
            f"'{hub_of_asker.url}/org/nothing/resolve/main/config.json'\n"
            "  Check the name; for a private model log in with `hf auth login`, then try again.\n"
            "  What depends on the model (its class, its heads, its dtype) was not checked.\n"
            "  source: transformers 5.22.2: AutoConfig.from_pretrained"
        ),
    )
    assert not (tmp_path / "runs").exists()


def test_a_configuration_of_a_model_that_is_not_json_blocks(kerneltui: Command, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{nonsense")
    plan(tmp_path / "c.yaml", model_name_or_path="model")
    assert kerneltui("launch", "sft", "c.yaml", "--runs-dir", "runs") == (
        1,
        "",
        blocked(
            "✖ The configuration of model cannot be read\n"
            f"  It looks like the config file at '{tmp_path}/model/config.json' is not a valid JSON file.\n"
            "  Check the model.\n"
            "  What depends on the model (its class, its heads, its dtype) was not checked.\n"
            "  source: transformers 5.22.2: AutoConfig.from_pretrained"
        ),
    )


@pytest.mark.parametrize(
    ("file", "content", "lines"),
    [
        (
            "data.jsonl", '{"a": 1}\n{oops\n',
            (
                "The data file {folder}/data.jsonl is not JSON",
                "Line 2, column 2: Expecting property name enclosed in double quotes.",
                "Each line must be one JSON object, or the whole file one list of objects.",
            ),
        ),
        ("data.jsonl", "", ("The data file {folder}/data.jsonl is empty", "Give a file with at least one row.")),
        (
            "data.jsonl", None,
            ("No data file at data.jsonl", "Nothing matches {folder}/data.jsonl.",
             "Check data_files in the configuration."),
        ),
    ],
    ids=["not JSON", "empty", "missing"],
)  # fmt: skip
def test_data_that_cannot_be_read_is_told(
    kerneltui: Command, tmp_path: Path, file: str, content: str | None, lines: tuple[str, ...]
) -> None:
    if content is not None:
        (tmp_path / file).write_text(content)
    plan(tmp_path / "c.yaml", datasets=[{"path": "json", "data_files": file}])
    expected = told(*(line.format(folder=tmp_path) for line in lines))
    assert kerneltui("launch", "sft", "c.yaml", "--runs-dir", "runs") == (2, "", expected)
    assert not (tmp_path / "runs").exists()
