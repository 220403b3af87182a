"""The comparison with real training steps on the CPU."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kerneltui import demo

_NAME = "kernels-community/flash-attn2"
_SLOW = """
import time as _time

def flash_attn_func(*args, **kwargs):
    _time.sleep(0.25)
    return _exact(*args, **kwargs)
"""
_WRONG = """
def flash_attn_func(*args, **kwargs):
    return -_exact(*args, **kwargs)
"""


def _bench(folder: Path, kernels: dict[str, Path], *arguments: str) -> dict[str, Any]:
    environment = {
        **os.environ,
        "LOCAL_KERNELS": ":".join(f"{name}={path}" for name, path in kernels.items()),
        "HF_HUB_OFFLINE": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "XDG_DATA_HOME": str(folder / "data"),
        "XDG_CACHE_HOME": str(folder / "cache"),
    }
    command = [sys.executable, "-m", "kerneltui", "bench", *arguments, "--steps", "2", "--warmup", "1", "--json"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _changed(folder: Path, name: str, source: str) -> Path:
    """Return a copy of the demo's kernel whose function is another."""
    copy = folder / name
    shutil.copytree(demo.attention_path(), copy)
    for file in copy.glob("build/*/__init__.py"):
        file.write_text(file.read_text().replace("def flash_attn_func(", "def _exact(") + source)
    return copy


def test_implementations_are_compared_in_real_training_steps(tmp_path: Path) -> None:
    files = [tmp_path / f"made{ending}" for ending in (".svg", ".md", ".csv")]
    exports = [word for file in files for word in ("--export", str(file))]
    found = _bench(
        tmp_path, {_NAME: demo.attention_path()}, "--attention", f"sdpa,{_NAME}", "--lengths", "32", *exports
    )
    cells = found["summary"]["cells"]
    assert [cell["contender"]["attention"] for cell in cells] == ["sdpa", _NAME]
    assert all(cell["ranked"] and cell["median"] > 0 and cell["difference"] < 0.01 for cell in cells)
    points = [json.loads(line) for line in Path(found["path"], "points.jsonl").read_text().splitlines()]
    assert [point["kernels"][0]["variant"] for point in points if point["kernels"]] == ["torch-cpu"]
    assert all(file.stat().st_size for file in files)


@pytest.mark.full
def test_a_slow_kernel_is_last_and_a_wrong_one_is_not_ranked(tmp_path: Path) -> None:
    kernels = {
        "kernels-community/slow": _changed(tmp_path, "slow", _SLOW),
        "kernels-community/wrong": _changed(tmp_path, "wrong", _WRONG),
    }
    found = _bench(tmp_path, kernels, "--attention", ",".join(["sdpa", *kernels]), "--lengths", "32")
    cells = {cell["contender"]["attention"]: cell for cell in found["summary"]["cells"]}
    assert not cells["kernels-community/wrong"]["ranked"]
    assert cells["kernels-community/slow"]["median"] > cells["sdpa"]["median"]
    assert found["summary"]["first"]["32"]["attention"] == "sdpa"
