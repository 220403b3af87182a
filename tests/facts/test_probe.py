"""The probe: its functions against damaged packages and tables, and its process where an import ends it."""

from __future__ import annotations

import ast
import email
import importlib.metadata
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from kerneltui.facts.probe import IMPORTS, Probe, read_parts
from kerneltui.worker import library_tables, probe, toolchain
from tests.facts.environments import add_package, make_environment

FLASH = "transformers.modeling_flash_attention_utils"


@pytest.mark.parametrize("version", ["2.3.2", "2.3.3", "2.8.3.post1"])
def test_an_old_flash_attention_2_does_not_count(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = {2: {"pkg_availability_check": lambda: True}, 4: {"pkg_availability_check": lambda: False}}
    monkeypatch.setitem(sys.modules, FLASH, SimpleNamespace(FLASH_ATTENTION_COMPATIBILITY_MATRIX=matrix))
    monkeypatch.setattr(importlib.metadata, "version", lambda name: version)
    found = library_tables.read_tables()["flash_packages"]
    assert found == {"flash_attention_2": version != "2.3.2", "flash_attention_4": False}


def test_a_table_that_is_not_there_does_not_hide_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    old = ModuleType(FLASH)
    vars(old).update(FLASH_ATTN_KERNEL_VERSIONS={"kernels-community/flash-attn2": 4})
    monkeypatch.setitem(sys.modules, FLASH, old)
    monkeypatch.setitem(sys.modules, "trl.cli.commands", None)
    tables = library_tables.read_tables()
    assert tables["attention_versions"] == {"kernels-community/flash-attn2": 4}
    assert "attention_devices" not in tables
    assert "FLASH_ATTN_KERNEL_DEVICES" in tables["unavailable"]["attention_devices"]
    assert "trainers" in tables["unavailable"]


@pytest.mark.parametrize("error", [SystemExit(3), ImportError("libcudart.so.12: not found"), KeyError("x"), OSError()])
def test_whatever_an_import_raises_is_a_reason(error: BaseException) -> None:
    def read() -> None:
        raise error

    unavailable: dict[str, str] = {}
    assert library_tables.attempt("torch", read, unavailable) is None
    assert unavailable["torch"].startswith(type(error).__name__)


@pytest.mark.parametrize("problem", ["raises", "no version"])
def test_damaged_metadata_is_told(problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def distribution(name: str) -> Any:
        if name != "trl":
            raise importlib.metadata.PackageNotFoundError(name)
        if problem == "raises":
            raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")
        return SimpleNamespace(metadata=email.message_from_string("Name: trl\n"))

    monkeypatch.setattr(importlib.metadata, "distribution", distribution)
    packages = probe.read_packages()
    assert list(packages) == ["trl"]
    assert packages["trl"]["version"] == ""
    assert "metadata" in packages["trl"]["error"]


def test_the_probe_s_files_are_python_3_10() -> None:
    folder = Path(probe.__file__).parent
    for name in ("probe", "library_tables", "protocol", "run", "toolchain", "torch_adapter"):
        ast.parse((folder / f"{name}.py").read_text(), feature_version=(3, 10))


def test_the_compiler_is_the_one_that_triton_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A contract: our rule, for where Triton cannot be asked, gives what the installed Triton gives."""
    build = pytest.importorskip("triton.runtime.build")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    for names in ((), ("clang",), ("clang", "gcc"), ("clang", "gcc", "tcc")):
        for name in names:
            (tmp_path / name).touch(mode=0o755)
        if "tcc" in names:
            monkeypatch.setenv("CC", "tcc")
        build._find_compiler.cache_clear()
        asked = library_tables.attempt("asked", toolchain.find_compiler, {})
        with monkeypatch.context() as without:
            without.setitem(sys.modules, "triton.runtime.build", None)
            assert library_tables.attempt("own", toolchain.find_compiler, {}) == asked
        assert asked == (str(tmp_path / names[-1]) if names else None)
    build._find_compiler.cache_clear()


def test_what_triton_lacks_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton.runtime.build", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CC", "icx")
    monkeypatch.setattr("sysconfig.get_paths", lambda scheme: {"include": str(tmp_path)})
    assert toolchain.read_toolchain() == {
        "compiler": None,
        "headers": None,
        "unavailable": {
            "compiler": "CC names icx, which is no program",
            "headers": f"{tmp_path} has no Python.h: Python's headers (python3-dev, python3-devel) are not installed",
        },
    }
    (tmp_path / "Python.h").touch()
    assert toolchain.find_headers() == str(tmp_path)


def parts_of(python: Path, *, late_at: str = "") -> tuple[dict[str, Any], dict[str, str], list[str]]:
    """Return all fields, reasons and steps that the probe tells there, up to a step where its time is up."""
    fields, reasons, steps = dict[str, Any](), dict[str, str](), list[str]()
    with Probe(python, 60) as asked:
        for part in read_parts(asked):
            if isinstance(part, str):
                steps.append(part)
                if part == late_at:
                    asked._deadline = 0
            else:
                fields |= part[0]
                reasons |= part[1]
    return fields, reasons, steps


def test_an_import_that_crashes_hides_no_other(tmp_path: Path) -> None:
    python = make_environment(tmp_path)
    add_package(python, "kernels", "import os; os.kill(os.getpid(), 11)")
    add_package(python, "peft", "raise ImportError('cannot import name X')")
    add_package(python, "accelerate", "import sys; print('leaving', file=sys.stderr); import os; os._exit(7)")
    add_package(python, "datasets", "")
    add_package(python, "vllm", "import sys; sys.exit(3)", requires=("datasets>=2; python_version>'3'", "numpy"))
    fields, reasons, steps = parts_of(python)
    assert {name: package.error for name, package in fields["packages"].items()} == {
        "kernels": "it ended the process (signal 11)",
        "accelerate": "it ended the process (exit code 7): leaving",
        "datasets": None,
        "peft": "ImportError: cannot import name X",
        "vllm": "SystemExit: 3",
    }
    assert fields["packages"]["vllm"].requires == {"datasets": ">=2"}
    assert reasons["torch"] == "No module named 'torch'"
    assert steps[-1] == "importing vllm"


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import os; os.kill(os.getpid(), 11)", "it ended the process (signal 11)"),
        ("print('to stdout'); raise ImportError('libcudart.so.12: gone')", "ImportError: libcudart.so.12: gone"),
    ],
)
def test_a_torch_that_does_not_import(tmp_path: Path, code: str, reason: str) -> None:
    python = make_environment(tmp_path)
    add_package(python, "torch", code, version="2.13.0")
    add_package(python, "datasets", "")
    fields, reasons, _ = parts_of(python)
    assert (fields["torch"], reasons["torch"]) == (None, reason)
    assert fields["packages"]["torch"].error == reason
    assert fields["packages"]["datasets"].error is None
    assert fields["libraries"].unavailable["trainers"] == "No module named 'trl'"
    assert fields["toolchain"]


def test_an_import_that_hangs_keeps_what_came_before(tmp_path: Path) -> None:
    python = make_environment(tmp_path)
    add_package(python, "torch", "import threading; threading.Event().wait()")
    add_package(python, "datasets", "")
    fields, reasons, _ = parts_of(python, late_at="importing torch")
    assert fields["packages"]["datasets"].version == "1.0"
    for name in ("torch", "libraries", "toolchain"):
        assert "no answer within 60 s" in reasons[name]
    assert "no answer within 60 s" in fields["packages"]["datasets"].error


def test_all_that_is_imported_is_looked_for() -> None:
    assert set(IMPORTS) <= set(probe.PACKAGES)
