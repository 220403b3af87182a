"""The GPUs in the report: a row for each, and below it what else is told of it."""

from __future__ import annotations

from collections.abc import Iterator

from kerneltui.facts.report_parts import NONE, gib, joined, middle, notes, only, section, switch, text
from kerneltui.facts.server import Gpu, GpuProcess, MigInstance, Server

# Rows of the table of GPUs: number, name, memory used and total, use, power, temperature.
_ROW = "{:>4}  {:<26}{:>9}{:>11}{:>7}{:>9}{:>9}"
_HEAD = _ROW.format("GPU", "name", "used GiB", "total GiB", "use %", "power W", "temp °C")
_INDENT = 6


def gpu_lines(server: Server, *, table: bool = True) -> list[str]:
    """Return the driver, then each GPU with its parts, its processes and the reasons for what is missing.

    Without the `table` a GPU has its name in place of a row of values.
    """
    cuda = f"CUDA {server.driver_cuda}" if server.driver_cuda else None
    lines = section("Driver", [joined(server.driver, cuda) or NONE])
    lines += notes(only(server.unavailable, "driver", "driver_cuda", "gpus"))
    if server.gpus and table:
        lines.append(_HEAD)
    for gpu in server.gpus:
        first = _row(gpu) if table else f"{text(gpu.index):>4}  {gpu.name or gpu.uuid or NONE}"
        lines += [first, *_details(gpu), *notes(gpu.unavailable, _INDENT)]
    return lines


def _row(gpu: Gpu) -> str:
    return _ROW.format(
        text(gpu.index),
        middle(gpu.name or gpu.uuid or NONE, 26),
        gib(gpu.memory_used),
        gib(gpu.memory_total),
        text(gpu.utilization),
        NONE if gpu.power is None else f"{gpu.power:.0f}",
        text(gpu.temperature),
    )


def _details(gpu: Gpu) -> Iterator[str]:
    """Give the lines below a GPU's row, each indented."""
    capability = "compute capability {}.{}".format(*gpu.capability) if gpu.capability else None
    torch = None if gpu.torch_index is None else f"torch's number {gpu.torch_index}"
    lines = [
        joined(capability, gpu.uuid, torch, "memory shared with the host" if gpu.memory_unified else None),
        joined(*_limits(gpu)),
        joined(*_health(gpu)),
        f"slowed by {', '.join(gpu.throttle)}" if gpu.throttle else "",
        *(_part(part) for part in gpu.mig_instances or ()),
        *map(_process, gpu.processes or ()),
    ]
    for line in filter(None, lines):
        yield f"{'':<{_INDENT}}{line}"


def _limits(gpu: Gpu) -> Iterator[str]:
    for name, value, limit, unit in (
        ("clock", gpu.clock, gpu.clock_limit, "MHz"),
        ("memory clock", gpu.memory_clock, gpu.memory_clock_limit, "MHz"),
    ):
        if value is not None:
            yield f"{name} {value}{f' of {limit}' if limit is not None else ''} {unit}"
    if gpu.power_limit is not None:
        yield f"power limit {gpu.power_limit:.0f} W"
    if gpu.temperature_limit is not None:
        yield f"slows down at {gpu.temperature_limit} °C"


def _health(gpu: Gpu) -> Iterator[str | None]:
    errors = "" if gpu.ecc_errors is None else f", {gpu.ecc_errors} uncorrected errors"
    yield f"ECC {'on' if gpu.ecc else 'off'}{errors}" if gpu.ecc is not None else errors.removeprefix(", ")
    yield "rows wait to be replaced" if gpu.remap_pending else None
    yield "rows could not be replaced" if gpu.remap_failed else None
    yield switch(gpu.persistence, "persistence")
    yield switch(gpu.mig, "MIG")
    yield f"compute mode {gpu.compute_mode}" if gpu.compute_mode else None
    yield f"{gpu.nvlinks} NVLinks" if gpu.nvlinks else None


def _part(part: MigInstance) -> str:
    memory = None if part.memory_total is None else f"{gib(part.memory_used)} of {gib(part.memory_total)} GiB"
    return joined(f"part {part.uuid or NONE}", part.name, memory)


def _process(process: GpuProcess) -> str:
    memory = f"{gib(process.memory)} GiB" if process.memory is not None else None
    return joined(f"process {process.pid}", process.user, process.command, memory)
