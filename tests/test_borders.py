"""The borders of the house at run time; `lint-imports` holds them at rest."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {
    "torch",
    "transformers",
    "trl",
    "datasets",
    "pandas",
    "accelerate",
    "kernels",
    "huggingface_hub",
    "textual",
}


def _loaded(code: str) -> set[str]:
    program = f"{code}\nimport sys; print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("module", ["kerneltui.cli", "kerneltui.runs.supervisor"])
def test_a_front_end_imports_no_training_package(module: str) -> None:
    assert _loaded(f"import {module}") & HEAVY == set()


def test_everything_below_the_command_line_imports_no_training_package() -> None:
    modules = "kerneltui.assess, kerneltui.show, kerneltui.facts.builds, kerneltui.runs.launch, kerneltui.plan.forms"
    assert _loaded(f"import {modules}") & (HEAVY - {"huggingface_hub"}) == set()


def test_a_worker_sees_what_its_interpreter_has_and_nothing_of_ours() -> None:
    from kerneltui.interpreter import WORKER

    program = (
        f"import runpy, sys; sys.argv = [{str(WORKER)!r}, 'protocol']; sys.path.insert(0, {str(WORKER.parent)!r})\n"
        f"try: runpy.run_path({str(WORKER)!r}, run_name='__main__')\n"
        "except AttributeError: pass\n"
        f"print({str(WORKER.parent)!r} in sys.path)\n"
        "print('kerneltui_worker.protocol' in sys.modules, 'kerneltui' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "False"]
