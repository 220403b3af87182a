"""An interpreter without the training packages."""

from __future__ import annotations

import json
import venv
from pathlib import Path

import pytest

from kerneltui.interpreter import TRAINING_REQUIREMENT
from tests.bad_input.command import FLASH, real, told
from tests.hub import LoopbackHub


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a virtual environment without packages."""
    path = tmp_path_factory.mktemp("bare") / "environment"
    venv.create(path, with_pip=False, symlinks=True)
    return path


@pytest.mark.parametrize(
    ("arguments", "package", "question"),
    [
        (["launch", "sft", "fine.yaml", "--runs-dir", "runs"], "trl", "trl.parse"),
        (["demo", "--runs-dir", "runs", "--json"], "trl", "trl.parse"),
        (["export", "sft", "fine.yaml", "--as", "yaml", "--packing"], "trl", "trl.parse"),
        (["kernels", FLASH, "--json"], "kernels", "kernels.variants"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_an_interpreter_without_the_packages_says_what_to_install(
    tmp_path: Path, hub: LoopbackHub, bare: Path, arguments: list[str], package: str, question: str
) -> None:
    (tmp_path / "fine.yaml").write_text("max_steps: 2\n")
    python = bare / "bin" / "python"
    said = real(*arguments, "--python", str(bare), cwd=tmp_path, **hub.environment())
    assert said == (
        1,
        "",
        told(
            f"{package} is not installed in {python}",
            f"It is needed to answer '{question}' (No module named '{package}').",
            f"uv pip install --python {python} '{TRAINING_REQUIREMENT}'",
        ),
    )
    assert not (tmp_path / "runs").exists()


def test_the_report_of_an_interpreter_without_the_packages_is_one_all_the_same(tmp_path: Path, bare: Path) -> None:
    said = real("doctor", "--json", "--python", str(bare), cwd=tmp_path)
    report = json.loads(said.out)
    assert (said.code, said.err, report["torch"], report["packages"]) == (1, "", None, {})
    assert report["unavailable"]["torch"] == "No module named 'torch'"


def test_the_shell_form_needs_no_packages(tmp_path: Path, bare: Path) -> None:
    said = real("export", "sft", "--run_name", "x", "--python", str(bare), cwd=tmp_path)
    assert said == (
        0,
        f"cd {tmp_path} && trl sft --run_name x\n",
        told(
            f"Not checked: trl is not installed in {bare}/bin/python",
            "It is needed to answer 'trl.parse' (No module named 'trl').",
            f"uv pip install --python {bare}/bin/python '{TRAINING_REQUIREMENT}'",
        ),
    )
