"""What is written here of transformers and kernels, held against the installed ones."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kerneltui.facts.attention import _HUB_KERNEL, resolve_attention
from kerneltui.facts.model import ModelFacts
from kerneltui.facts.server import Libraries
from kerneltui.records import from_builtins
from kerneltui.worker.probe import PACKAGES

ROOT = Path(__file__).parents[2]
NAMES = (
    *("a/b", "a/b@v1", "a/b@v1:f", "a/b:f", "a/b/c", "a/b@refs/heads/v1", "a/b@", "a/b@v1:f:g", " a/b @ v1 ", "a"),
    *("", "sdpa", "a/b@v1@v2", "/b", "a/", "flash_attention_2", "a:b/c", "paged|a/b", "a/b\n", "Ä/ß@ü"),
)
CLASSES = ("Qwen2ForCausalLM", "Gemma2ForCausalLM", "GptOssForCausalLM", "BloomForCausalLM")
ASKED = (
    *(None, "sdpa", "eager", "flex_attention", "paged|eager", "paged|sdpa", "nonsense", "a/b@refs/heads/v1"),
    *("flash_attention_2", "flash_attention_3", "flash_attention_4", "paged|flash_attention_2"),
    *("kernels-community/flash-attn2", "kernels-community/flash-attn2@v2", "kernels-community/vllm-flash-attn3"),
    *("kernels-community/vllm-flash-attn3@v1", "somebody/attention", "somebody/attention@main:function"),
)
CASES = [(kind, asked) for kind in CLASSES for asked in ASKED]


@pytest.fixture(scope="module")
def transformers() -> dict[str, Any]:
    """Return the answers of the installed transformers; see real_transformers.py."""
    request = json.dumps({"names": NAMES, "cases": CASES})
    command = [sys.executable, str(Path(__file__).with_name("real_transformers.py")), str(ROOT)]
    done = subprocess.run(command, input=request, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def test_the_grammar_of_kernels(transformers: dict[str, Any]) -> None:
    assert [bool(_HUB_KERNEL.search(name)) for name in NAMES] == transformers["kernels"]


def test_names_become_what_transformers_makes_of_them(transformers: dict[str, Any]) -> None:
    libraries = from_builtins(transformers["libraries"], Libraries, "the tables")
    wrong = []
    for (kind, asked), real in zip(CASES, transformers["cases"], strict=True):
        model = from_builtins(real["facts"], ModelFacts, "the facts")
        choice = resolve_attention(asked, libraries, model, kernels_usable=True, device=real["device"])
        if "error" in real:
            # The names of builtin attention that the class lacks are for a rule, not for the table of names.
            agrees = choice.kind == "unknown" or _class_refuses(choice.implementation, model)
        else:
            expected = [[choice.repository, choice.revision]] if choice.kind == "kernel" else []
            agrees = (choice.implementation, expected) == (real["implementation"], real["loaded"])
        if not agrees:
            wrong.append((kind, asked, choice, real))
    assert not wrong


def _class_refuses(name: str, model: ModelFacts) -> bool:
    flags = {"sdpa": model.supports_sdpa, "flex_attention": model.supports_flex}
    return flags.get(name, model.supports_flash) is False


def test_the_report_of_a_server_has_every_package_that_a_kernel_may_need() -> None:
    """A build's python-depends are looked for in the report of another machine."""
    data = pytest.importorskip("kernels.python_deps")._DEPENDENCY_DATA
    tables = (data.general, *data.backends.values())
    needed = {package.pkg for table in tables for it in table.values() for package in it.python if package.import_name}
    assert needed <= set(PACKAGES)
