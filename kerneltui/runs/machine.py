"""Samples of the machine that a run is on: its GPUs, memory and disk."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Protocol

import psutil

from kerneltui.facts.gpu import GpuSample, Nvml
from kerneltui.records import Record

# Seconds between two samples, and after which a GPU's values are too old to be told.
INTERVAL = 2.0
_PATIENCE = 10.0


class GpuReader(Protocol):
    """What reads the GPUs: `Nvml`, or what stands in for it in tests."""

    def sample(self) -> tuple[GpuSample, ...]:
        """Return one record a GPU."""

    def close(self) -> None:
        """End the connection."""


class Sample(Record):
    """A line of `system.jsonl` but for its time and attempt; memory and disk in bytes, `cpu` in percent of all."""

    gpus: tuple[GpuSample, ...]
    memory_used: int
    memory_total: int
    disk_free: int
    cpu: float | None = None


class Machine:
    """Samples the machine. The GPUs are read in a thread: a hanging driver hangs whoever asks it, and nothing else."""

    def __init__(self, folder: Path, gpus: GpuReader | None = None) -> None:
        self._folder = folder
        self._reader = gpus or Nvml()
        self._gpus: tuple[GpuSample, ...] = ()
        self._read = self._next = time.monotonic()
        self._ended = threading.Event()
        self._answered = threading.Event()
        # A daemon: a call that never returns must not keep the supervisor from ending.
        threading.Thread(target=self._read_gpus, daemon=True).start()

    def __enter__(self) -> Machine:
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()

    def sample(self) -> Sample | None:
        """Return a sample when one is due, else None. Raises OSError where the disk does not answer."""
        if time.monotonic() < self._next or not self._ready():
            return None
        self._next = time.monotonic() + INTERVAL
        memory = psutil.virtual_memory()
        return Sample(
            gpus=self._latest(),
            memory_used=memory.total - memory.available,
            memory_total=memory.total,
            disk_free=psutil.disk_usage(str(self._folder)).free,
            cpu=psutil.cpu_percent(),  # since the sample before
        )

    def _ready(self) -> bool:
        """Whether the GPUs have answered once, or had their time for it."""
        return self._answered.is_set() or time.monotonic() > self._read + _PATIENCE

    def _latest(self) -> tuple[GpuSample, ...]:
        silent = time.monotonic() - self._read
        if silent <= _PATIENCE:
            return self._gpus
        reason = {"gpu": f"the driver has not answered for {silent:.0f} s"}
        return tuple(GpuSample(index=gpu.index, uuid=gpu.uuid, unavailable=reason) for gpu in self._gpus)

    def _read_gpus(self) -> None:
        while not self._ended.is_set():
            self._gpus = self._reader.sample()
            self._read = time.monotonic()
            self._answered.set()
            self._ended.wait(INTERVAL)
        self._reader.close()
