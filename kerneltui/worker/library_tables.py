"""The one adapter over the tables of transformers and TRL that decide on attention kernels and trainers.

All of them are private or move between releases. A table that this release does not have, or that raises, is
left out, and the reason goes into `unavailable` under its name. Held against the installed packages by
tests/facts/test_probe.py.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
from collections.abc import Callable
from typing import Any

from .experimental import experimental_trainers

# `is_flash_attn_2_available` of transformers refuses older ones; it can be asked on a machine with a GPU
# only.
_MINIMUM_FLASH_ATTENTION_2 = "2.3.3"


def read_tables() -> dict[str, Any]:
    """Return the fields of `kerneltui.facts.server.Libraries`."""
    readers: dict[str, Callable[[], Any]] = {
        "kernels_minimum": lambda: _import_utils().KERNELS_MIN_VERSION,
        "kernels_maximum": lambda: _import_utils().KERNELS_MAX_VERSION,
        "attention_versions": lambda: dict(_flash_utils().FLASH_ATTN_KERNEL_VERSIONS),
        "attention_fallbacks": lambda: dict(_flash_utils().FLASH_ATTN_KERNEL_FALLBACK),
        "attention_devices": _attention_devices,
        "flash_packages": _flash_packages,
        "attention_names": _attention_names,
        "trainers": trainers,
        "experimental": experimental_trainers,
        "tvm_ffi": _tvm_ffi,
    }
    unavailable: dict[str, str] = {}
    tables = {name: attempt(name, read, unavailable) for name, read in readers.items()}
    return {
        **{name: value for name, value in tables.items() if value is not None},
        "unavailable": unavailable,
    }


def attempt(name: str, read: Callable[[], Any], unavailable: dict[str, str]) -> Any:
    """Return what `read` gives, or None with the reason in `unavailable`."""
    try:
        return read()
    # What a half-installed package raises while it is imported can be anything, an exit included, and must
    # not hide the others.
    except (Exception, SystemExit) as error:  # noqa: BLE001
        unavailable[name] = reason(error)
        return None


def reason(error: BaseException) -> str:
    """Return an exception in one line: its message, after its type where that is needed."""
    text = " ".join(str(error).split())
    if isinstance(error, (ModuleNotFoundError, AssertionError, RuntimeError)) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _import_utils() -> Any:
    return importlib.import_module("transformers.utils.import_utils")


def _flash_utils() -> Any:
    return importlib.import_module("transformers.modeling_flash_attention_utils")


def _attention_devices() -> dict[str, list[str]]:
    return {name: list(devices) for name, devices in _flash_utils().FLASH_ATTN_KERNEL_DEVICES.items()}


def _flash_packages() -> dict[str, bool]:
    """Return for each native flash name whether its own package is there, whatever the GPU."""
    matrix = _flash_utils().FLASH_ATTENTION_COMPATIBILITY_MATRIX
    found = {f"flash_attention_{number}": bool(row["pkg_availability_check"]()) for number, row in matrix.items()}
    if found.get("flash_attention_2"):
        from packaging.version import parse

        installed = parse(importlib.metadata.version("flash-attn"))
        found["flash_attention_2"] = installed >= parse(_MINIMUM_FLASH_ATTENTION_2)
    return found


def _attention_names() -> list[str]:
    functions = importlib.import_module("transformers.modeling_utils").ALL_ATTENTION_FUNCTIONS
    return sorted({"eager", *functions.valid_keys()})


def trainers() -> list[str]:
    """Return the trainers of the `trl` command; its other commands (env, vllm-serve) train nothing."""
    commands = importlib.import_module("trl.cli.commands").get_commands()
    return [command.name for command in commands if type(command).__name__ == "TrainingCommand"]


def every_trainer() -> list[str]:
    """Return the trainers of the `trl` command, then those of `trl.experimental`."""
    return [*trainers(), *experimental_trainers()]


def _tvm_ffi() -> str:
    """Return the version that kernels compares with builds for tvm-ffi."""
    return str(importlib.import_module("tvm_ffi").__version__)
