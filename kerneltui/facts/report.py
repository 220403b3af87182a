"""The server report as lines of plain text: facts only, findings are not made here."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from kerneltui.facts.report_gpus import gpu_lines
from kerneltui.facts.report_parts import NONE, gib, joined, notes, only, section, switch
from kerneltui.facts.server import HubAnswer, Libraries, Package, Server, Stay, Toolchain, Torch
from kerneltui.text import plain

# Without Unicode: the signs of notes and of what is broken, and the other characters used here.
_ASCII = str.maketrans({"·": "-", "✖": "x", "–": "-", "°": "", "…": "...", "→": "->"})


def report_lines(server: Server, *, ascii_only: bool = False, width: int = 80) -> list[str]:
    """Return the report in lines of `width`; a missing value is a dash, with its reason in a note below.

    No control characters are in it; a path or another word that is longer than a line stays whole. `ascii_only`
    replaces the signs by ASCII and anything else that is not by "?".
    """
    lines = [*_machine(server), *gpu_lines(server), *_software(server), *_surroundings(server)]
    return _fit(lines, width, ascii_only=ascii_only)


def card_lines(server: Server, width: int) -> list[str]:
    """Return what is told of each GPU besides the values that change all the time, in lines of `width`."""
    return _fit(gpu_lines(server, table=False), width)


def software_lines(server: Server, width: int) -> list[str]:
    """Return the report without the GPUs, in lines of `width`."""
    return _fit([*_machine(server), *_software(server), *_surroundings(server)], width)


def _software(server: Server) -> list[str]:
    return [
        *_torch(server.torch, server.unavailable),
        *_packages(server.packages),
        *_toolchain(server.toolchain),
        *_libraries(server.libraries, server.unavailable),
    ]


def _surroundings(server: Server) -> list[str]:
    return [
        *section("Variables", [f"{name}={value}" for name, value in server.environment.items()]),
        *_disks(server),
        *_hub(server.hub),
        *_stay(server.stay),
    ]


def _fit(lines: list[str], width: int, *, ascii_only: bool = False) -> list[str]:
    clean = [plain(line).replace("\n", " ").replace("\t", " ").rstrip() for line in lines]
    if ascii_only:
        clean = [line.translate(_ASCII).encode("ascii", "replace").decode() for line in clean]
    return [part for line in clean for part in _wrap(line, width)]


def _wrap(line: str, width: int) -> list[str]:
    """Return a line in parts; those after the first stand two columns further in than its text."""
    if len(line) <= width:
        return [line]
    label = line[:12] if line[:1].strip() else ""
    indent = len(label) or len(line) - len(line.lstrip())
    rest = textwrap.wrap(
        line[indent:], max(20, width - indent), subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
    return [f"{label if not number else '':<{indent}}{part}" for number, part in enumerate(rest)]


def _machine(server: Server) -> list[str]:
    system = joined(server.hostname, " ".join(filter(None, (server.system, server.release, server.machine))))
    quota = None if server.cpu_quota is None else f"time of {server.cpu_quota:g} cores"
    free = f", {gib(server.memory_available)} available" if server.memory_available is not None else ""
    limit = None if server.memory_limit is None else f"limit {gib(server.memory_limit)} GiB"
    sizes = joined(
        f"{server.cores} cores" if server.cores else None,
        quota,
        f"{gib(server.memory_total)} GiB memory{free}" if server.memory_total else None,
        limit,
    )
    made = f"made by {server.installer}" if server.installer else None
    return [
        *section("Server", [system, *([sizes] if sizes else [])]),
        *section("Python", [joined(server.python, server.interpreter, made)]),
    ]


def _torch(torch: Torch | None, unavailable: Mapping[str, str]) -> list[str]:
    if torch is None:
        return [*section("torch", [NONE]), *notes(only(unavailable, "torch"))]
    builds = [f"{name} {version}" for name, version in _builds(torch) if version]
    devices = f"{torch.device_count} device{'' if torch.device_count == 1 else 's'}"
    cudnn = f"cuDNN {torch.cudnn}" if torch.cudnn else None
    bf16 = None if torch.bf16 is None else f"bf16 {'yes' if torch.bf16 else 'no'}"
    line = joined(torch.version, *(builds or ["CPU only"]), cudnn, switch(torch.cxx11_abi, "C++11 ABI"), devices, bf16)
    architectures = [" ".join(torch.arch_list)] if torch.arch_list else []
    return [*section("torch", [line, *architectures]), *notes(torch.unavailable)]


def _builds(torch: Torch) -> tuple[tuple[str, str | None], ...]:
    return (("CUDA", torch.cuda), ("ROCm", torch.hip), ("XPU", torch.xpu))


def _packages(packages: Mapping[str, Package]) -> list[str]:
    lines = []
    for name, package in packages.items():
        broken = f"  ✖ does not import: {package.error}" if package.error else ""
        lines.append(f"{name:<20}{package.version or NONE}{broken}")
    return section("Packages", lines or ["none of the training packages is installed"])


def _toolchain(tools: Toolchain | None) -> list[str]:
    if tools is None:
        return []
    line = joined(f"compiler {tools.compiler or NONE}", f"Python headers {tools.headers or NONE}")
    return [*section("Triton", [line]), *notes(tools.unavailable)]


def _libraries(libraries: Libraries | None, unavailable: Mapping[str, str]) -> list[str]:
    if libraries is None:
        return [*section("Libraries", [NONE]), *notes(only(unavailable, "libraries"))]
    values = []
    if libraries.kernels_minimum and libraries.kernels_maximum:
        values.append(f"transformers takes kernels {libraries.kernels_minimum} to below {libraries.kernels_maximum}")
    values += [_attention(libraries, name) for name in libraries.attention_fallbacks]
    if libraries.trainers:
        values.append(f"trainers: {' '.join(libraries.trainers)}")
    if libraries.experimental:
        values.append(f"experimental trainers: {' '.join(libraries.experimental)}")
    return [*section("Libraries", values or [NONE]), *notes(libraries.unavailable)]


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
    lines = [
        f"{disk.purpose:<14}{gib(disk.free):>8} of {gib(disk.total):>8} GiB free{' (quota)' if disk.quota else ''}  "
        f"{disk.path}"
        for disk in server.disks
    ]
    reasons = {name: reason for name, reason in server.unavailable.items() if name.startswith("disks.")}
    return [*section("Disks", lines), *notes(reasons)]


def _hub(hub: HubAnswer | None) -> list[str]:
    if hub is None:
        return []
    answers = None if hub.seconds is None else f"answers in {hub.seconds:.2f} s"
    proxy = f"through {hub.proxy}" if hub.proxy else None
    kernels = None if hub.kernels is None else f"{'has' if hub.kernels else 'has no'} kernel repositories"
    source = f" (from {'the environment' if hub.token == 'environment' else 'a file'})" if hub.token else ""
    cached = None if hub.cached is None else f"{hub.cached} snapshots in its cache"
    token = f"token of {hub.user or 'someone'}{source}" if hub.token else "no token"
    reasons = {name: it for name, it in hub.unavailable.items() if name != "user" or hub.token}
    return [*section("Hub", [joined(hub.endpoint, answers, proxy, kernels, token, cached)]), *notes(reasons)]


def _stay(stay: Stay | None) -> list[str]:
    if stay is None:
        return []
    ends = None
    if stay.kill_user_processes is not None:
        ends = f"logout {'ends' if stay.kill_user_processes and not stay.linger else 'spares'} processes"
    container = f"in a container ({stay.container})" if stay.container else None
    job = f"in Slurm job {stay.slurm_job}" if stay.slurm_job else None
    line = joined(ends, container, job)
    return [*(section("Session", [line]) if line else []), *notes(stay.unavailable)]
