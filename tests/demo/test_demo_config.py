"""The configuration that the demo writes, and the environment that it needs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from datasets import load_dataset
from kernels.load import _parse_local_kernel_overrides
from trl.scripts.sft import make_parser

from kerneltui import demo
from kerneltui.errors import KerneltuiError


def parsed(**changes: Any) -> dict[str, Any]:
    options: dict[str, Any] = {"output_dir": None, "gpu": False, "steps": 20, **changes}
    config: dict[str, Any] = yaml.safe_load(demo.config_text(**options))
    return config


def test_the_kernel_is_asked_for_by_name_and_nothing_is_trusted_beyond_it() -> None:
    config = parsed()
    assert config["attn_implementation"] == demo.ATTENTION == "kerneltui/demo-attention"
    assert "model_init_kwargs" not in config
    assert config["model_name_or_path"] == str(demo.model_path())
    assert config["datasets"] == [{"path": "json", "data_files": str(demo.data_path("sft"))}]
    assert (config["packing"], config["max_steps"], config["logging_steps"]) == (True, 20, 1)
    assert config["report_to"] == "none"


def test_the_processor_decides_on_the_precision() -> None:
    cpu, gpu = parsed(gpu=False), parsed(gpu=True)
    assert (cpu["dtype"], cpu["bf16"], cpu["use_cpu"]) == ("float32", False, True)
    assert (gpu["dtype"], gpu["bf16"], gpu.get("use_cpu")) == ("bfloat16", True, None)


@pytest.mark.parametrize(("steps", "every"), [(1, 1), (20, 10), (7, 3)])
def test_a_checkpoint_lies_half_way(steps: int, every: int) -> None:
    config = parsed(steps=steps)
    assert (config["max_steps"], config["save_strategy"], config["save_steps"]) == (steps, "steps", every)


@pytest.mark.parametrize(
    "name",
    [
        "a b",
        "é 日本 🚀",
        "#x: y",
        "'\"",
        "[a] {b} *?",
        "%20\\n",
        "tab\there\nnew line",
        "\x7f\udce4",
        "x" * 300,
    ],
)
def test_any_path_comes_back_from_the_yaml(name: str) -> None:
    path = Path("/srv") / name
    text = demo.config_text(output_dir=path, gpu=True, steps=3)
    assert yaml.safe_load(text)["output_dir"] == str(path)
    if "\udce4" not in name:
        assert yaml.safe_load(text.encode())["output_dir"] == str(path)


@pytest.mark.parametrize("name", ["a b $HOME", "new\nline", "\u2028x", "\udce4"])
def test_an_installation_anywhere_gives_a_file_that_parses(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "_HERE", Path("/srv") / name)
    config = parsed()
    assert config["model_name_or_path"] == f"/srv/{name}/model"
    assert len(config) == len(yaml.safe_load(demo.config_text(output_dir=Path("x"), gpu=False, steps=1))) - 1


def test_trl_knows_every_key(tmp_path: Path) -> None:
    for gpu in (True, False):
        file = tmp_path / "demo.yaml"
        file.write_text(demo.config_text(output_dir=tmp_path / "out", gpu=gpu, steps=20), encoding="utf-8")
        # TRL hands what it does not know to accelerate; bf16 needs a GPU or the CPU to be meant.
        *configs, unknown = make_parser().parse_args_and_config(
            ["--config", str(file), "--use_cpu", "true"], return_remaining_strings=True
        )
        assert unknown == []
        training, model = configs[1], configs[2]
        assert (training.max_steps, training.packing, training.learning_rate) == (20, True, 0.01)
        assert training.output_dir == str(tmp_path / "out")
        assert model.attn_implementation == demo.ATTENTION


def test_the_data_is_found_in_a_directory_that_looks_like_a_pattern(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "sp ace é [x] a?b" / ".venv"
    shutil.copytree(demo.data_path("sft").parent, home / "data")
    monkeypatch.setattr(demo, "_HERE", home)
    [source] = parsed()["datasets"]
    rows = load_dataset(**source, split="train", cache_dir=tmp_path / "cache")
    assert len(rows) == 96


@pytest.mark.parametrize(
    ("existing", "others"),
    [
        (None, {}),
        ("", {}),
        ("org/own=/srv/own", {"org/own": Path("/srv/own")}),
        ("kerneltui/demo-attention=/old:org/own=/srv/own:", {"org/own": Path("/srv/own")}),
    ],
)
def test_kernels_reads_local_kernels(existing: str | None, others: dict[str, Path]) -> None:
    found = _parse_local_kernel_overrides(demo.local_kernels(existing))
    assert found == {**others, demo.ATTENTION: demo.attention_path()}


def test_a_colon_in_the_path_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "_HERE", Path("/srv/a:b"))
    with pytest.raises(KerneltuiError, match="up to the next colon, and there is one in /srv/a:b/attention"):
        demo.local_kernels(None)
