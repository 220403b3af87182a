"""The whole report, with the probe as a real process in real interpreters."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from kerneltui.errors import UsageError
from kerneltui.facts import read_server as module
from kerneltui.facts.disks import read_disk
from kerneltui.facts.read_server import read_server, reread_server
from kerneltui.facts.server import PENDING, Server
from kerneltui.records import from_json, to_json
from tests.facts.environments import add_package, make_environment
from tests.facts.fake_nvml import GIB, FakeNvml, gb10, h200
from tests.hub import LoopbackHub

PLANTED, CACHED, PASSWORD = "hf_PLANTEDplantedPLANTED", "hf_CACHEDcachedCACHED", "pl@nted"


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
    return make_environment(tmp_path_factory.mktemp("bare"))


@pytest.fixture(scope="module")
def here() -> Iterator[tuple[Server, list[str]]]:
    """The report of the interpreter that runs the tests, and the progress that was told."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "pynvml", FakeNvml(h200()))
        patch.delenv("PYTHONPATH", raising=False)
        patch.setenv("NCCL_DEBUG", "INFO")
        told: list[str] = []
        yield read_server(Path(sys.executable), on_progress=told.append), told


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
    assert {"runs", "cache"} <= {disk.purpose for disk in server.disks}
    assert server.cores
    assert server.memory_total
    assert server.stay
    assert server.toolchain
    assert server.packages["trl"].requires["transformers"]
    assert server.hub
    assert "cannot be reached" in server.hub.unavailable["seconds"]
    assert PENDING not in server.unavailable.values()


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
    assert {"orpo", "cpo", "gkd", "gold", "online_dpo"} <= set(libraries.experimental)
    # Old names of trainers that are no longer experimental.
    assert not {"kto", "distillation"} & set(libraries.experimental)


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


def test_an_empty_torch_does_not_hide_the_others(tmp_path: Path) -> None:
    python = make_environment(tmp_path)
    module = add_package(python, "torch", "", version="2.13.0")
    add_package(python, "datasets", "")
    server = read_server(python)
    assert server.torch is None
    assert server.unavailable["torch"].startswith(f"{module} is not a whole PyTorch")
    assert server.packages["torch"].error == server.unavailable["torch"]
    assert server.packages["datasets"].error is None
    assert server.gpus[0].unavailable["torch_index"] == server.unavailable["torch"]


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


def test_a_driver_that_hangs_does_not_hang_the_report(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stuck = threading.Event()
    monkeypatch.setattr(module, "_nvml", lambda: [stuck.wait()])
    monkeypatch.setattr(module, "_NVML_DEADLINE", 0.05)
    server = read_server(bare)
    stuck.set()
    assert server.gpus == ()
    assert {server.unavailable[name] for name in ("gpus", "driver", "driver_cuda")} == {
        "no answer in 0.05 s: the driver hangs (look at dmesg)"
    }


def test_what_was_known_of_a_driver_that_hangs_now_is_not_told_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = make_environment(tmp_path)
    add_package(python, "torch", WHOLE_TORCH, version="2.13.0")
    server = read_server(python)
    stuck = threading.Event()
    monkeypatch.setattr(module, "_nvml", lambda: [stuck.wait()])
    monkeypatch.setattr(module, "_NVML_DEADLINE", 0.05)
    again = reread_server(server)
    stuck.set()
    assert server.gpus
    assert (again.gpus, again.driver, again.torch) == ((), None, server.torch)
    assert "hangs" in again.unavailable["gpus"]


def test_a_disk_that_cannot_be_asked_hides_no_other(
    bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(purpose: Any, path: Path) -> Any:
        if purpose == "runs":
            raise OSError(5, os.strerror(5))
        return read_disk(purpose, path)

    monkeypatch.setattr(module, "read_disk", refuse)
    server = read_server(bare, runs_dir=tmp_path)
    assert server.unavailable["disks.runs"] == f"{tmp_path}: Input/output error"
    assert [disk.purpose for disk in server.disks][:1] == ["cache"]


def test_what_is_known_first_is_told_first(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    opened = os.open(tmp_path / "go", os.O_RDWR)
    python = make_environment(tmp_path / "environment")
    add_package(python, "torch", f"open({str(tmp_path / 'go')!r}).readline()", version="2.13.0")
    add_package(python, "peft", "raise ImportError('no')")
    told: list[Server] = []

    def tell(server: Server) -> None:
        told.append(server)
        if server.gpus:
            os.write(opened, b"torch may go on\n")

    server = read_server(python, on_part=tell)
    os.close(opened)
    cards = next(part for part in told if part.gpus)
    assert cards.unavailable["torch"] == PENDING
    assert cards.hostname == server.hostname
    versions = next(part for part in told if part.packages)
    assert versions.unavailable["torch"] == PENDING
    assert versions.packages["peft"].error is None
    after = next(part for part in told if part.unavailable.get("torch") != PENDING)
    assert after.packages["peft"].error is None
    assert told[-1] == server
    assert PENDING not in server.unavailable.values()
    assert server.packages["peft"].error == "ImportError: no"


WHOLE_TORCH = """
import pathlib, types
pathlib.Path(__file__).with_name("imported").open("a").write("x")
__version__ = "2.13.0"
version = types.SimpleNamespace(cuda=None, hip=None)
cuda = types.SimpleNamespace(is_available=lambda: False)
def compiled_with_cxx11_abi(): return True
"""


def test_reading_again_does_not_import_torch_again(tmp_path: Path, one_h200: FakeNvml) -> None:
    python = make_environment(tmp_path)
    count = add_package(python, "torch", WHOLE_TORCH, version="2.13.0").with_name("imported")
    server = read_server(python)
    assert server.torch
    assert count.read_text() == "x"
    one_h200.gpus[0].used = 7 * GIB
    parts: list[Server] = []
    again = reread_server(server, on_part=parts.append)
    assert count.read_text() == "x"
    assert parts[-1] == again
    assert all(part.gpus and part.hub and part.disks for part in parts)
    assert again.gpus[0].memory_used == 7 * GIB
    assert (again.torch, again.packages, again.libraries) == (server.torch, server.packages, server.libraries)
    assert again.unavailable == server.unavailable
    assert again.time > server.time
    add_package(python, "peft", "")
    assert set(reread_server(again).packages) == {"torch", "peft"}
    assert count.read_text() == "xx"


def test_a_gpu_without_its_own_memory_has_the_systems(bare: Path, one_h200: FakeNvml) -> None:
    one_h200.gpus[:] = [gb10()]
    server = read_server(bare)
    (gpu,) = server.gpus
    assert gpu.memory_unified
    assert (gpu.memory_total, gpu.memory_free) == (server.memory_total, server.memory_available)


def test_a_token_is_nowhere_in_the_report(tmp_path: Path, hub: LoopbackHub) -> None:
    """In the variable, in the cache, in a proxy's and the endpoint's address, in what a package raises and prints."""
    python = make_environment(tmp_path / "environment")
    leak = "import os, sys; print(os.environ['HF_TOKEN'], os.environ['HF_ENDPOINT'], file=sys.stderr)\n"
    add_package(python, "kernels", f"{leak}raise ValueError('HF_TOKEN is ' + os.environ['HF_TOKEN'])")
    add_package(python, "vllm", f"{leak}os._exit(3)")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "token").write_text(CACHED)
    environment = {
        **os.environ,
        **hub.environment(),
        "HF_HOME": str(tmp_path / "home"),
        "HF_TOKEN": PLANTED,
        "HF_ENDPOINT": hub.url.replace("//", f"//anna:{PASSWORD}@"),
        "https_proxy": f"http://anna:{PASSWORD}@127.0.0.1:9",
        "PYTHONPATH": str(Path(module.__file__).parents[2]),
    }
    for arguments in (["doctor"], ["doctor", "--json"], ["check", "sft", "nowhere.yaml"]):
        command = [sys.executable, "-m", "kerneltui", *arguments, "--python", str(python)]
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
        written = done.stdout + done.stderr
        assert written
        for secret in (PLANTED, CACHED, PASSWORD):
            assert secret not in written
    cached = tmp_path / "home" / "token"
    for path in (path for path in tmp_path.rglob("*") if path.is_file() and path != cached):
        content = path.read_bytes()
        assert not [secret for secret in (PLANTED, CACHED, PASSWORD) if secret.encode() in content]


def test_a_driver_mismatch_is_reported_beside_torch(bare: Path, one_h200: FakeNvml) -> None:
    one_h200.fail["nvmlInit"] = 18
    server = read_server(bare)
    assert server.gpus == ()
    assert "version mismatch" in server.unavailable["gpus"]
