"""Benchmarks on disk: a directory each, `benchmark.json` and a line a point in `points.jsonl`."""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path

import msgspec

from kerneltui.bench.records import Benchmark, Measured, Point
from kerneltui.errors import KerneltuiError, RecordError
from kerneltui.paths import benchmarks_directory, write_atomically
from kerneltui.records import from_json, read_record, to_json
from kerneltui.runs.journal import append_line


class Store:
    """One benchmark's directory. Its points are appended, so that whatever ends it keeps what is there."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def points_file(self) -> Path:
        """The file of the measured points."""
        return self.path / "points.jsonl"

    def read(self) -> Benchmark:
        """Return what is compared. Raises RecordError."""
        return read_record(self.path / "benchmark.json", Benchmark)

    def begin(self, benchmark: Benchmark) -> None:
        """Make the directory; of one that is there, to be continued, only the time changes. Raises KerneltuiError."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise KerneltuiError(f"Cannot make {self.path}", error.strerror or str(error)) from error
        write_atomically(self.path / "benchmark.json", to_json(benchmark))

    def measured(self) -> dict[Point, Measured]:
        """Return what was measured, by point, of each the latest; half a line at the end is not yet written."""
        found: dict[Point, Measured] = {}
        with contextlib.suppress(FileNotFoundError):
            for line in self.points_file.read_bytes().splitlines():
                with contextlib.suppress(RecordError):
                    one = from_json(line, Measured, self.points_file.name)
                    found[one.point] = one
        return found

    def add(self, measured: Measured) -> None:
        """Append a point. Raises KerneltuiError where the disk does not take it."""
        try:
            append_line(self.points_file, measured)
        except OSError as error:
            raise KerneltuiError(f"Cannot write {self.points_file}", error.strerror or str(error)) from error


def store_of(benchmark: Benchmark) -> Store:
    """Return the place of a benchmark: the same for the same comparison, machine and packages."""
    what = msgspec.structs.replace(benchmark, time="", kerneltui="")
    digest = hashlib.sha256(to_json(what, indent=0)).hexdigest()[:8]
    return Store(benchmarks_directory() / f"{benchmark.name}-{digest}")


def stored_benchmarks() -> list[tuple[Benchmark, Store]]:
    """Return all benchmarks of this machine that can be read, the latest first."""
    found = []
    for path in benchmarks_directory().glob("*/benchmark.json"):
        with contextlib.suppress(RecordError):
            store = Store(path.parent)
            found.append((store.read(), store))
    return sorted(found, key=lambda pair: pair[0].time, reverse=True)
