"""Read a server: NVML, the host and the Hub here, torch and the packages by a probe in the training interpreter."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args

import msgspec

from kerneltui.facts.command import TIMEOUT
from kerneltui.facts.devices import join_devices, share_memory
from kerneltui.facts.disks import Purpose, places, read_disk
from kerneltui.facts.gather import LATE, Source, gather
from kerneltui.facts.gpu import Nvml
from kerneltui.facts.host import read_host
from kerneltui.facts.probe import Part, Probe, read_packages, read_parts
from kerneltui.facts.server import PENDING, Gpu, Server, Torch
from kerneltui.facts.stay import read_stay
from kerneltui.interpreter import ProgressCallback
from kerneltui.text import harmless, without_secrets

# Seconds after which a source is not waited for; a healthy one answers in well under a second.
_NVML_DEADLINE = 30.0
_DISK_DEADLINE = 10.0
_HUB_DEADLINE = 10.0  # each of its questions has its own, shorter one
_HINTS = {"NVML": ": the driver hangs (look at dmesg)", "disks": ": a network disk may be lost"}

_PROBED = ("python", "installer", "packages", "torch", "libraries", "toolchain")
# What each source tells, where that is not one field of its own name.
_FIELDS = {"NVML": ("gpus", "driver", "driver_cuda"), "probe": _PROBED}
# What stands for nothing, where that is not None.
_EMPTY: dict[str, Any] = {"gpus": (), "packages": {}}

_LIMITING = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK")

ServerCallback = Callable[[Server], None]


def read_server(
    python: Path,
    *,
    timeout: float = 120,
    on_progress: ProgressCallback | None = None,
    runs_dir: Path | None = None,
    on_part: ServerCallback | None = None,
) -> Server:
    """Return the report of this machine with `python` as the training interpreter.

    It takes about as long as the packages take to import, `timeout` seconds at most; all else is read meanwhile.
    `on_part` gets the report as far as it is known, again and again: GPUs and host first, then versions, torch, what
    does not import; what is not there yet is `PENDING` in `unavailable`. What cannot be told is None or empty, with
    the reason under the field's name in `unavailable`: a torch that is missing, broken or crashes is no error.
    Raises UsageError or WorkerError when the interpreter does not start.
    """
    with Probe(python, timeout) as probe:
        # The probe keeps its time limit itself, the reasons being better; this is for a process that cannot be ended.
        probed = Source("probe", lambda: read_parts(probe), timeout + 30)
        return _Report({"interpreter": str(python)}).fill([probed, *_around(runs_dir)], on_part, on_progress)


def reread_server(
    server: Server,
    *,
    timeout: float = 120,
    on_progress: ProgressCallback | None = None,
    runs_dir: Path | None = None,
    on_part: ServerCallback | None = None,
) -> Server:
    """Return the report of this machine anew, as `read_server`, without importing torch again where that is needless.

    What the probe told is kept while the same versions are installed and nothing was broken or missing. In what
    `on_part` gets, the old values stand until the new ones are there.
    """
    python = Path(server.interpreter)
    if _changed(server, timeout):
        return read_server(python, timeout=timeout, on_progress=on_progress, runs_dir=runs_dir, on_part=on_part)
    kept = {name: getattr(server, name) for name in server.__struct_fields__ if name not in ("disks", "unavailable")}
    kept |= {f"disks.{disk.purpose}": disk for disk in server.disks}
    kept |= {"gpus": tuple(gpu for gpu in server.gpus if gpu.nvml_index is not None), "devices": _torch_devices(server)}
    report = _Report(kept, {name: why for name, why in server.unavailable.items() if name in _PROBED})
    return report.fill(_around(runs_dir), on_part, on_progress)


def _changed(server: Server, timeout: float) -> bool:
    if server.torch is None or any(package.error for package in server.packages.values()):
        return True
    with Probe(Path(server.interpreter), timeout) as probe:
        return read_packages(probe) != (server.python, server.packages)


def _torch_devices(server: Server) -> tuple[Gpu, ...]:
    """Return torch's devices as it told them."""
    names = ("torch_index", "name", "uuid", "pci", "capability", "memory_total", "memory_unified")
    seen = [gpu for gpu in server.gpus if gpu.torch_index is not None]
    return tuple(Gpu(**{name: getattr(gpu, name) for name in names}) for gpu in seen)


class _Report:
    """A report that is being filled, from what is known at once."""

    def __init__(self, known: dict[str, Any], unavailable: Mapping[str, str] = MappingProxyType({})) -> None:
        self._known = {"devices": (), "gpus": (), **known, **read_host()}
        self._unavailable = dict(unavailable)

    def fill(
        self, sources: Sequence[Source], on_part: ServerCallback | None, on_progress: ProgressCallback | None
    ) -> Server:
        """Return the report with all that the sources give."""
        deadlines = {source.name: source.deadline for source in sources}
        for name in deadlines:
            self._unavailable |= dict.fromkeys(_FIELDS.get(name, (name,)), PENDING)
        for name, value in gather(sources):
            if isinstance(value, str):
                if on_progress:
                    on_progress(value)
                continue
            self._take(self._late(name, deadlines[name]) if value is LATE else value)
            if on_part:
                on_part(self._server())
        return self._server()

    def _take(self, part: Part) -> None:
        fields, reasons = part
        for name in fields:
            self._unavailable.pop(name, None)
        self._known |= fields
        self._unavailable |= reasons

    def _late(self, source: str, deadline: float) -> Part:
        """Return the part of a source that does not answer: the reason for all that it has not told."""
        reason = f"no answer in {deadline:g} s{_HINTS.get(source.partition('.')[0], '')}"
        missing = [name for name in _FIELDS.get(source, (source,)) if self._unavailable.get(name) == PENDING]
        return {name: _EMPTY.get(name) for name in missing}, dict.fromkeys(missing, reason)

    def _server(self) -> Server:
        known, unavailable = dict(self._known), dict(self._unavailable)
        torch = known.get("torch")
        gpus = join_devices(
            known["gpus"],
            known.pop("devices"),
            no_nvml=unavailable.get("gpus", "NVML does not list it"),
            no_torch=_no_torch(torch, unavailable),
            limited=bool(_limits()),
        )
        known["gpus"] = share_memory(gpus, known["memory_total"], known["memory_available"])
        if known["gpus"]:
            unavailable.pop("gpus", None)
        disks = [known.pop(f"disks.{purpose}", None) for purpose in get_args(Purpose)]
        made = Server(**known, disks=tuple(filter(None, disks)), unavailable=unavailable)
        return msgspec.convert(without_secrets(msgspec.to_builtins(made)), Server)


def _around(runs_dir: Path | None) -> list[Source]:
    """Return what is read beside the probe, each for itself."""
    return [
        Source("NVML", _nvml, _NVML_DEADLINE),
        *(
            Source(f"disks.{name}", partial(_disk, name, path), _DISK_DEADLINE)
            for name, path in places(runs_dir).items()
        ),
        Source("stay", lambda: [({"stay": read_stay()}, {})], 2 * TIMEOUT + 1),
        Source("hub", _hub, _HUB_DEADLINE),
    ]


def _nvml() -> list[Part]:
    with Nvml() as nvml:
        report = nvml.read_gpus()
    fields = {"gpus": report.gpus, "driver": report.driver, "driver_cuda": report.driver_cuda}
    return [(fields, report.unavailable)]


def _hub() -> list[Part]:
    from kerneltui.facts.hub_answer import ask_hub  # while torch is imported, not before it is

    return [({"hub": ask_hub()}, {})]


def _disk(purpose: Purpose, path: Path) -> list[Part]:
    name = f"disks.{purpose}"
    try:
        return [({name: read_disk(purpose, path)}, {})]
    except OSError as error:
        return [({name: None}, {name: f"{path}: {error.strerror or error}"})]


def _no_torch(torch: Torch | None, unavailable: Mapping[str, str]) -> str:
    """Return the reason why torch does not see a GPU that NVML lists."""
    if torch is None:
        return unavailable.get("torch", "torch was not asked")
    if not torch.device_count:
        return torch.unavailable.get("devices", "torch sees no device")
    under = " and ".join(f"{name}={harmless(os.environ[name])}" for name in _limits())
    return f"torch does not see it under {under}" if under else "torch does not see it"


def _limits() -> list[str]:
    """Return the variables that hide GPUs from torch."""
    return [name for name in _LIMITING if name in os.environ]
