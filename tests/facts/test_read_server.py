"""The whole report, with the probe as a real process in real interpreters."""

from __future__ import annotations

import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from kerneltui.errors import UsageError, WorkerTimeoutError
from kerneltui.facts import read_server as module
from kerneltui.facts.read_server import read_server
from kerneltui.facts.server import Server
from kerneltui.records import from_json, to_json
from tests.facts.fake_nvml import FakeNvml, h200


@pytest.fixture(autouse=True)
def one_h200(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """Every machine of these tests has one H200, whatever it really has."""
    library = FakeNvml(h200())
    monkeypatch.setitem(sys.modules, "pynvml", library)
    for name in ("PYTHONPATH", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    return library


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter without any package."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, symlinks=True)
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def here() -> Iterator[tuple[Server, list[str]]]:
    """The report of the interpreter that runs the tests, and the progress that was told."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "pynvml", FakeNvml(h200()))
        patch.delenv("PYTHONPATH", raising=False)
        patch.setenv("NCCL_DEBUG", "INFO")
        told: list[str] = []
        yield read_server(Path(sys.executable), on_progress=told.append), told


def put(folder: Path, name: str, text: str) -> Path:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    return folder


def test_the_training_packages_are_reported(here: tuple[Server, list[str]]) -> None:
    server, told = here
    from importlib.metadata import version

    assert server.python == sys.version.split()[0]
    for name in ("torch", "transformers", "trl", "kernels"):
        assert server.packages[name].version == version(name)
        assert server.packages[name].error is None
    assert "torch" in " ".join(told)
    assert server.torch
    assert server.torch.version.startswith(version("torch").partition("+")[0])
    assert isinstance(server.torch.cxx11_abi, bool)
    assert server.environment["NCCL_DEBUG"] == "INFO"
    assert {disk.purpose for disk in server.disks} == {"runs", "cache"}
    assert server.cores
    assert server.memory_total


def test_the_tables_are_those_of_the_installed_libraries(here: tuple[Server, list[str]]) -> None:
    """A contract with the private names that `worker/library_tables.py` reads: all must be there."""
    libraries = here[0].libraries
    assert libraries
    assert set(libraries.unavailable) <= {"tvm_ffi"}
    assert libraries.kernels_minimum
    assert libraries.kernels_maximum
    assert libraries.attention_fallbacks["flash_attention_2"] in libraries.attention_versions
    assert libraries.attention_fallbacks.keys() == libraries.flash_packages.keys()
    assert libraries.attention_devices
    assert {"eager", "sdpa", "flash_attention_2"} <= set(libraries.attention_names)
    assert {"sft", "dpo", "grpo", "kto", "reward", "rloo"} <= set(libraries.trainers)
    assert not {"env", "vllm-serve"} & set(libraries.trainers)


def test_nvml_tells_of_a_card_that_a_cpu_torch_does_not_see(here: tuple[Server, list[str]]) -> None:
    server, _ = here
    if server.torch and server.torch.device_count:
        pytest.skip("this machine's torch sees a GPU")
    (gpu,) = server.gpus
    assert (server.driver, server.driver_cuda) == ("580.159.03", "13.0")
    assert (gpu.name, gpu.index, gpu.torch_index) == ("NVIDIA H200", 0, None)
    assert server.torch
    assert gpu.unavailable["torch_index"] == server.torch.unavailable["devices"]


def test_the_report_survives_its_file(here: tuple[Server, list[str]]) -> None:
    assert from_json(to_json(here[0]), Server, "server.json") == here[0]


def test_an_interpreter_without_packages(bare: Path) -> None:
    server = read_server(bare)
    assert server.torch is None
    assert server.unavailable["torch"] == "No module named 'torch'"
    assert server.packages == {}
    assert server.libraries
    assert "No module named" in server.libraries.unavailable["trainers"]
    assert server.interpreter == str(bare)
    (gpu,) = server.gpus
    assert gpu.unavailable == {"torch_index": "No module named 'torch'"}


def test_an_empty_torch_does_not_hide_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(put(tmp_path, "torch/__init__.py", "")))
    server = read_server(Path(sys.executable))
    assert server.torch is None
    assert f"{tmp_path / 'torch' / '__init__.py'} is not a whole PyTorch" in server.unavailable["torch"]
    assert server.packages["torch"].error
    assert server.packages["transformers"].version
    assert server.libraries
    assert {"sft", "dpo"} <= set(server.libraries.trainers) or server.libraries.unavailable["trainers"]
    assert server.libraries.kernels_minimum


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import os; os.kill(os.getpid(), 11)", "signal 11"),
        ("import os; os._exit(7)", "exit code 7"),
    ],
)
def test_a_torch_that_takes_the_process_with_it(
    bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, reason: str
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(put(tmp_path, "torch/__init__.py", code)))
    server = read_server(bare)
    assert (server.torch, server.libraries) == (None, None)
    assert reason in server.unavailable["torch"]
    assert reason in server.unavailable["libraries"]
    assert server.gpus


def test_a_torch_that_exits_or_lacks_a_library(bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "torch/__init__.py", "print('to stdout'); raise ImportError('libcudart.so.12: cannot open')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert read_server(bare).unavailable["torch"] == "ImportError: libcudart.so.12: cannot open"


def test_no_process_is_left(bare: Path) -> None:
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    read_server(bare)
    assert {process.pid for process in psutil.Process().children(recursive=True)} <= before


def test_an_interpreter_that_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Cannot start"):
        read_server(tmp_path / "python")
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho no such interpreter >&2\nexit 3\n")
    broken.chmod(0o755)
    with pytest.raises(UsageError, match=r"does not work as a Python interpreter\nIt ended \(exit code 3\)"):
        read_server(broken)


class SlowWorker:
    """A worker whose import hangs after the first part."""

    def __init__(self, parts: dict[str, Any]) -> None:
        self.parts = parts

    def ask(self, question: str, *, timeout: float, on_progress: Any, on_part: Any) -> Any:
        for name, value in self.parts.items():
            on_part(name, value)
        raise WorkerTimeoutError("probe: no answer to 'probe' within 120 s")


def test_an_import_that_hangs_keeps_what_came_before() -> None:
    worker: Any = SlowWorker({"python": {"version": "3.12.3"}, "packages": {}})
    parts, missing = module._probe(worker, 120, None)
    assert parts["packages"] == {}
    assert missing.keys() == {"torch", "libraries"}
    assert "within 120 s" in missing["torch"]
    with pytest.raises(WorkerTimeoutError):
        module._probe(SlowWorker({}), 120, None)  # type: ignore[arg-type]


def test_a_driver_that_hangs_does_not_hang_the_report() -> None:
    import threading

    stuck = threading.Event()

    def hang() -> Any:
        stuck.wait()

    report = module._in_background(hang)(0.01)
    stuck.set()
    assert report.gpus == ()
    assert "has not answered" in report.unavailable["gpus"]


def test_a_driver_mismatch_is_reported_beside_torch(bare: Path, one_h200: FakeNvml) -> None:
    one_h200.fail["nvmlInit"] = 18
    server = read_server(bare)
    assert server.gpus == ()
    assert "version mismatch" in server.unavailable["gpus"]
