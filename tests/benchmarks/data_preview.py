"""Benchmark: the first rows of a large JSON lines file against those of a small one, in time and memory.

Run as `python -m tests.benchmarks.data_preview [GIGABYTES]` (2 by default). The large file is the small one over and
over: first some real copies, then holes, which take no room on the disk; nobody reads them.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import psutil

from kerneltui.facts.dataset import read_dataset
from kerneltui.interpreter import Asker, find_interpreter

_SMALL, _COPIES, _REPEATS = 2 << 20, 16, 7
MOST_TIME, MOST_MEMORY = 1.5, 100 << 20


def main() -> None:
    """Print seconds and memory of both, and exit with 1 where the large file takes too much."""
    size = int(float(sys.argv[1]) * 2**30) if len(sys.argv) > 1 else 2 << 30
    with tempfile.TemporaryDirectory() as folder, Asker(find_interpreter()) as asker:
        small, large = write_files(Path(folder), size)
        _read(asker, small)  # the libraries are imported
        before = _memory()
        seconds, memory = {}, {}
        for path in (small, large):
            seconds[path.name] = statistics.median(_read(asker, path) for _ in range(_REPEATS))
            memory[path.name] = _memory() - before
    ratio = seconds["large.jsonl"] / seconds["small.jsonl"]
    more = memory["large.jsonl"] - memory["small.jsonl"]
    for name, taken in seconds.items():
        print(f"{name}: {taken * 1000:.0f} ms")
    print(f"{size / 2**30:g} GiB takes {ratio:.2f} times as long as 2 MiB, and {more / 2**20:+.0f} MiB of memory")
    raise SystemExit(ratio > MOST_TIME or more > MOST_MEMORY)


def write_files(folder: Path, size: int) -> tuple[Path, Path]:
    """Write a JSON lines file of 2 MiB and one of `size` bytes that begins like it."""
    row = {"messages": [{"role": "user", "content": "word " * 40}, {"role": "assistant", "content": "word " * 80}]}
    line = json.dumps(row).encode() + b"\n"
    rows = line * (_SMALL // len(line))
    small, large = folder / "small.jsonl", folder / "large.jsonl"
    small.write_bytes(rows)
    with large.open("wb") as file:
        file.write(rows * _COPIES)
        file.truncate(max(size, file.tell()))
    return small, large


def _read(asker: Asker, path: Path) -> float:
    begin = time.perf_counter()
    read_dataset(asker, {"datasets": [{"path": "json", "data_files": str(path)}]}, path.parent, "sft")
    return time.perf_counter() - begin


def _memory() -> int:
    """Return the bytes that this process and its asker hold."""
    own = psutil.Process()
    return sum(process.memory_info().rss for process in (own, *own.children(recursive=True)))


if __name__ == "__main__":
    main()
