"""What the demo ships: complete, small, readable by the libraries, and what its script makes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from kerneltui import demo
from kerneltui.errors import UsageError

ROOT = Path(__file__).parents[2]
TRAINERS = ("sft", "dpo", "kto", "reward", "grpo", "rloo", "distillation")
BUILDS = ("torch-cpu", "torch-cuda")


def shipped() -> list[Path]:
    """Return every file of the demo that is not compiled code."""
    files = (path for path in demo.model_path().parent.rglob("*") if path.is_file())
    return [path for path in files if "__pycache__" not in path.parts]


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_all_is_far_below_a_megabyte() -> None:
    assert sum(path.stat().st_size for path in shipped()) < 600_000


def test_git_ignores_none_of_it() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout")
    told = subprocess.run(["git", "check-ignore", *map(str, shipped())], cwd=ROOT, capture_output=True, text=True)
    assert told.stdout == ""


@pytest.mark.parametrize("trainer", TRAINERS)
def test_each_trainer_has_conversational_data(trainer: str) -> None:
    found = rows(demo.data_path(trainer))
    assert 40 <= len(found) <= 128
    wanted = {"sft": {"messages"}, "dpo": {"prompt", "chosen", "rejected"}, "grpo": {"prompt", "solution"}}
    assert set(found[0]) in wanted.values()
    assert all(set(row) == set(found[0]) for row in found)
    assert any(not json.dumps(row, ensure_ascii=False).isascii() for row in found)


def test_a_trainer_without_data_is_named() -> None:
    with pytest.raises(UsageError, match="no data for 'ppo'"):
        demo.data_path("ppo")


def test_the_builds_are_copies_of_one_source() -> None:
    source = (demo.attention_path() / "demo_attention.py").read_bytes()
    for build in BUILDS:
        assert (demo.attention_path() / "build" / build / "__init__.py").read_bytes() == source


def test_the_script_makes_these_files_again(tmp_path: Path) -> None:
    script = ROOT / "tests" / "tools" / "make_demo.py"
    subprocess.run([sys.executable, script, "--into", tmp_path], check=True)
    made = {path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()}
    home = demo.model_path().parent
    assert made == {path.relative_to(home) for path in shipped()} - {
        Path("__init__.py"),
        Path("attention/demo_attention.py"),
    }
    # The spelling of these two is that of the installed libraries; their content is compared below.
    libraries = {Path("model/tokenizer.json"), Path("model/model.safetensors")}
    for path in made - libraries:
        assert (tmp_path / path).read_bytes() == (home / path).read_bytes(), path
    mine, theirs = (json.loads((at / "model/tokenizer.json").read_text(encoding="utf-8")) for at in (home, tmp_path))
    assert mine["model"]["vocab"] == theirs["model"]["vocab"]
    weights, again = (load_file(at / "model/model.safetensors") for at in (home, tmp_path))
    assert weights.keys() == again.keys()
    assert all((weights[name] == again[name]).all() for name in weights)


def test_transformers_loads_the_model_in_full() -> None:
    model, told = AutoModelForCausalLM.from_pretrained(demo.model_path(), output_loading_info=True)
    assert not any(told.values())
    config = model.config
    assert (config.num_attention_heads, config.num_key_value_heads, config.head_dim) == (4, 2, 16)
    assert config.vocab_size == model.get_input_embeddings().num_embeddings == 512


def test_the_tokenizer_keeps_every_text_and_marks_the_answers() -> None:
    tokenizer = AutoTokenizer.from_pretrained(demo.model_path())
    assert tokenizer.is_fast
    assert (len(tokenizer), tokenizer.eos_token, tokenizer.pad_token) == (512, "<|im_end|>", "<|endoftext|>")
    for row in rows(demo.data_path("sft")):
        for message in row["messages"]:
            assert tokenizer.decode(tokenizer(message["content"]).input_ids) == message["content"]
        encoded = tokenizer.apply_chat_template(row["messages"], return_dict=True, return_assistant_tokens_mask=True)
        pairs = zip(encoded["input_ids"], encoded["assistant_masks"], strict=True)
        marked = tokenizer.decode([token for token, answer in pairs if answer])
        answers = [m["content"] + "<|im_end|>" for m in row["messages"] if m["role"] == "assistant"]
        assert marked == "".join(answers)


KERNELS = """
import json, sys
from pathlib import Path
from kernels import get_kernel, get_loaded_kernels
from kernels._rust import Metadata
kernel = get_kernel(sys.argv[1], version=1)
builds = [Metadata.read_from_file(Path(path)) for path in sys.argv[2:]]
print(json.dumps({
    "calls": kernel.CALLS,
    "loaded": [loaded.metadata.name.python_name for loaded in get_loaded_kernels()],
    "builds": [[str(b.name), b.id, b.version, str(b.backend.backend_type), b.python_depends] for b in builds],
}))
"""


def test_kernels_loads_it_by_name_without_a_network() -> None:
    # Not offline mode: the closed port shows that nothing is asked, the publisher's trust included.
    told = subprocess.run(
        [
            sys.executable,
            "-c",
            KERNELS,
            demo.ATTENTION,
            *(str(demo.attention_path() / "build" / build / "metadata.json") for build in BUILDS),
        ],
        env={
            **{name: value for name, value in os.environ.items() if name != "HF_HUB_OFFLINE"},
            "HF_ENDPOINT": "http://127.0.0.1:9",
            "LOCAL_KERNELS": demo.local_kernels(None),
        },
        check=True,
        capture_output=True,
        text=True,
    )
    answer = json.loads(told.stdout)
    assert answer["calls"] == {"dense": 0, "varlen": 0}
    assert answer["loaded"] == ["demo_attention"]
    names, ids, versions, backends, depends = zip(*answer["builds"], strict=True)
    assert set(names) == {"demo-attention"}
    assert ids == ("_demo_attention_cpu_v1", "_demo_attention_cuda_v1")
    assert set(versions) == {1}
    assert [backend.lower().rpartition(".")[2] for backend in backends] == ["cpu", "cuda"]
    assert depends == ([], [])
