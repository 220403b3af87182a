"""The server report as lines of plain text: facts only, findings are not made here."""

from __future__ import annotations

from collections.abc import Mapping

from kerneltui.facts.server import Gpu, GpuProcess, Libraries, Package, Server, Torch
from kerneltui.text import plain

_NONE = "–"
_INDENT = 12
# Rows of the table of GPUs: number, name, memory used and total, use, power, temperature, reasons for lower
# clocks.
_ROW = "{:>4}  {:<26}{:>9}{:>11}{:>7}{:>9}{:>9}  {}"
_HEAD = _ROW.format("GPU", "name", "used GiB", "total GiB", "use %", "power W", "temp °C", "slowed by")
_NAMES = {
    "gpus": "GPUs",
    "driver_cuda": "the driver's CUDA",
    "mig": "MIG",
    "ecc_errors": "ECC errors",
    "tvm_ffi": "tvm-ffi",
    "cxx11_abi": "C++11 ABI",
}
# Without Unicode: the signs of notes and of what is broken, and the other characters used here.
_ASCII = str.maketrans({"·": "-", "✖": "x", "–": "-", "°": "", "…": "...", "→": "->"})


def report_lines(server: Server, *, ascii_only: bool = False) -> list[str]:
    """Return the report; a missing value is a dash, with its reason in a note below.

    No control characters are in it. `ascii_only` replaces the signs by ASCII and anything else that is not by
    "?".
    """
    lines = [
        *_machine(server),
        *_gpus(server),
        *_torch(server.torch, server.unavailable),
        *_packages(server.packages),
        *_libraries(server.libraries, server.unavailable),
        *_section("Variables", [f"{name}={value}" for name, value in server.environment.items()]),
        *_disks(server),
    ]
    clean = [plain(line).replace("\n", " ").replace("\t", " ").rstrip() for line in lines]
    if ascii_only:
        return [line.translate(_ASCII).encode("ascii", "replace").decode() for line in clean]
    return clean


def _section(label: str, values: list[str]) -> list[str]:
    """Return one line a value, the first with the label before it; nothing without values."""
    return [f"{'' if position else label:<{_INDENT}}{value}" for position, value in enumerate(values)]


def _notes(unavailable: Mapping[str, str], indent: int = _INDENT) -> list[str]:
    """Return a line for each reason, with all that is missing for it."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in unavailable.items():
        by_reason.setdefault(reason, []).append(_NAMES.get(name, name.replace("_", " ")))
    return [f"{'':<{indent}}· {', '.join(names)} not available: {reason}" for reason, names in by_reason.items()]


def _only(unavailable: Mapping[str, str], *names: str) -> dict[str, str]:
    return {name: unavailable[name] for name in names if name in unavailable}


def _joined(*values: str | None) -> str:
    return " · ".join(value for value in values if value)


def _machine(server: Server) -> list[str]:
    cores = f"{server.cores} cores" if server.cores else None
    memory = f"{_gib(server.memory_total)} GiB memory" if server.memory_total else None
    machine = _joined(server.hostname, f"{server.system} {server.machine}", cores, memory)
    return [*_section("Server", [machine]), *_section("Python", [_joined(server.python, server.interpreter)])]


def _gpus(server: Server) -> list[str]:
    cuda = f"CUDA {server.driver_cuda}" if server.driver_cuda else None
    lines = _section("Driver", [_joined(server.driver, cuda) or _NONE])
    lines += _notes(_only(server.unavailable, "driver", "driver_cuda", "gpus"))
    if server.gpus:
        lines.append(_HEAD)
    for gpu in server.gpus:
        lines += [_gpu(gpu), *map(_process, gpu.processes or ()), *_notes(gpu.unavailable, indent=6)]
    return lines


def _gpu(gpu: Gpu) -> str:
    return _ROW.format(
        _text(gpu.index),
        _middle(gpu.name or gpu.uuid or _NONE, 26),
        _gib(gpu.memory_used),
        _gib(gpu.memory_total),
        _text(gpu.utilization),
        _NONE if gpu.power is None else f"{gpu.power:.0f}",
        _text(gpu.temperature),
        ", ".join(gpu.throttle or ()) or _NONE,
    )


def _process(process: GpuProcess) -> str:
    memory = f"{_gib(process.memory)} GiB" if process.memory is not None else None
    return f"{'':<6}{_joined(f'process {process.pid}', process.user, process.command, memory)}"


def _torch(torch: Torch | None, unavailable: Mapping[str, str]) -> list[str]:
    if torch is None:
        return [*_section("torch", [_NONE]), *_notes(_only(unavailable, "torch"))]
    builds = [f"{name} {version}" for name, version in _builds(torch) if version]
    abi = None if torch.cxx11_abi is None else f"C++11 ABI {'on' if torch.cxx11_abi else 'off'}"
    devices = f"{torch.device_count} device{'' if torch.device_count == 1 else 's'}"
    bf16 = None if torch.bf16 is None else f"bf16 {'yes' if torch.bf16 else 'no'}"
    line = _joined(torch.version, *(builds or ["CPU only"]), abi, devices, bf16)
    architectures = [" ".join(torch.arch_list)] if torch.arch_list else []
    return [*_section("torch", [line, *architectures]), *_notes(torch.unavailable)]


def _builds(torch: Torch) -> tuple[tuple[str, str | None], ...]:
    return (("CUDA", torch.cuda), ("ROCm", torch.hip), ("XPU", torch.xpu))


def _packages(packages: Mapping[str, Package]) -> list[str]:
    lines = []
    for name, package in packages.items():
        broken = f"  ✖ does not import: {package.error}" if package.error else ""
        lines.append(f"{name:<20}{package.version or _NONE}{broken}")
    return _section("Packages", lines or ["none of the training packages is installed"])


def _libraries(libraries: Libraries | None, unavailable: Mapping[str, str]) -> list[str]:
    if libraries is None:
        return [*_section("Libraries", [_NONE]), *_notes(_only(unavailable, "libraries"))]
    values = []
    if libraries.kernels_minimum and libraries.kernels_maximum:
        values.append(f"transformers takes kernels {libraries.kernels_minimum} to below {libraries.kernels_maximum}")
    values += [_attention(libraries, name) for name in libraries.attention_fallbacks]
    if libraries.trainers:
        values.append(f"trainers: {' '.join(libraries.trainers)}")
    return [*_section("Libraries", values or [_NONE]), *_notes(libraries.unavailable)]


def _attention(libraries: Libraries, name: str) -> str:
    """Return what stands behind a native flash name: its own package, or the repository in its place."""
    if libraries.flash_packages.get(name):
        return f"{name}: its own package"
    repository = libraries.attention_fallbacks[name]
    # A repository that is not in transformers' table is taken at version 1.
    number = libraries.attention_versions.get(repository, 1) if libraries.attention_versions else None
    version = "" if number is None else f" v{number}"
    return f"{name} → {repository}{version} (its own package is not there)"


def _disks(server: Server) -> list[str]:
    lines = [f"{disk.purpose:<7}{_gib(disk.free):>9} GiB free  {disk.path}" for disk in server.disks]
    reasons = {name: reason for name, reason in server.unavailable.items() if name.startswith("disks.")}
    return [*_section("Disks", lines), *_notes(reasons)]


def _text(value: int | None) -> str:
    return _NONE if value is None else str(value)


def _gib(size: int | None) -> str:
    """Return bytes in GiB with one digit."""
    return _NONE if size is None else f"{size / 2**30:.1f}"


def _middle(text: str, width: int) -> str:
    """Return `text` in at most `width` characters, cut in the middle."""
    if len(text) <= width:
        return text
    half = (width - 1) // 2
    return f"{text[: width - 1 - half]}…{text[-half:]}"
