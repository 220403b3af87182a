"""The pieces that the report is made of: sections, notes on what is missing, sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

NONE = "–"
INDENT = 12
_NAMES = {
    "gpus": "GPUs",
    "driver_cuda": "the driver's CUDA",
    "mig": "MIG",
    "mig_instances": "MIG parts",
    "ecc": "ECC",
    "ecc_errors": "ECC errors",
    "nvlinks": "NVLink",
    "tvm_ffi": "tvm-ffi",
    "cxx11_abi": "C++11 ABI",
    "cudnn": "cuDNN",
    "bf16": "bfloat16",
    "user": "the token's owner",
    "seconds": "an answer",
    "kernels": "kernel repositories",
    "kill_user_processes": "KillUserProcesses",
}


def section(label: str, values: Sequence[str]) -> list[str]:
    """Return one line a value, the first with the label before it; nothing without values."""
    return [f"{'' if position else label:<{INDENT}}{value}" for position, value in enumerate(values)]


def notes(unavailable: Mapping[str, str], indent: int = INDENT) -> list[str]:
    """Return a line for each reason, with all that is missing for it."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in unavailable.items():
        by_reason.setdefault(reason, []).append(_NAMES.get(name, name.replace("_", " ")))
    return [f"{'':<{indent}}· {', '.join(names)} not available: {reason}" for reason, names in by_reason.items()]


def only(unavailable: Mapping[str, str], *names: str) -> dict[str, str]:
    """Return the reasons for these names alone."""
    return {name: unavailable[name] for name in names if name in unavailable}


def joined(*values: str | None) -> str:
    """Return the values that there are, on one line."""
    return " · ".join(value for value in values if value)


def text(value: int | None) -> str:
    """Return a number, or a dash."""
    return NONE if value is None else str(value)


def gib(size: int | None) -> str:
    """Return bytes in GiB with one digit, or a dash."""
    return NONE if size is None else f"{size / 2**30:.1f}"


def switch(value: bool | None, name: str) -> str | None:
    """Return "name on" or "name off"; None where it is not told."""
    return None if value is None else f"{name} {'on' if value else 'off'}"


def middle(value: str, width: int) -> str:
    """Return `value` in at most `width` characters, cut in the middle."""
    if len(value) <= width:
        return value
    half = (width - 1) // 2
    return f"{value[: width - 1 - half]}…{value[-half:]}"
