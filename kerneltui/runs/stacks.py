"""Where the ranks of a run stand: their Python stacks, written by themselves on a signal (see `worker.train`)."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Mapping
from pathlib import Path

import psutil

from kerneltui.runs.tail import Tail
from kerneltui.text import plain_line

# Seconds until the stacks are there, and how much of a file is read.
_PATIENCE = 2.0
_BYTES = 1 << 16
_FRAME = re.compile(r'^  File "(?P<file>[^"]+)", line (?P<line>\d+) in (?P<function>.+)$')
# What functions among the innermost frames tell of what is waited for.
_WAITING = (
    (r"_try_get_data|_next_data|_next_index|dataloader\.py", "it waits for data"),
    (r"all_reduce|all_gather|reduce_scatter|broadcast|barrier|distributed_c10d", "it waits for another rank"),
    (r"urlopen|httpx|httpcore|requests|socket\.py|ssl\.py", "it waits for the network"),
    (r"save_pretrained|_save_checkpoint|safetensors|serialization\.py", "it saves a checkpoint"),
    (r"synchronize|_cuda_|cuda/", "it waits for the GPU"),
)  # fmt: skip


def take_stacks(files: Mapping[int, tuple[psutil.Process, Path, int]]) -> dict[int, str]:
    """Ask ranks for their stacks and return where each stands, in a few words; ranks that do not answer are left out.

    Each rank has its process, its file, and the number of the signal that it writes at.
    """
    tails = {}
    for rank, (process, path, number) in files.items():
        tails[rank] = Tail(path, from_end=0)
        with contextlib.suppress(psutil.Error, OSError, ValueError):
            process.send_signal(number)
    told: dict[int, bytes] = dict.fromkeys(tails, b"")
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline and not all(told.values()):
        time.sleep(0.1)
        told = {rank: told[rank] + tail.read(_BYTES) for rank, tail in tails.items()}
    return {rank: words for rank, text in told.items() if (words := where(text.decode("utf-8", "replace")))}


def where(stack: str) -> str | None:
    """Return where the main thread of a stack that faulthandler wrote stands; None where there is none.

    It dumps every thread, and the one that got the signal, the main one, as "Current thread".
    """
    _, _, main = stack.rpartition("Current thread")
    frames = [found for line in main.splitlines() if (found := _FRAME.match(line))]
    if not frames:
        return None
    innermost = frames[0]
    near = " ".join(frame[0] for frame in frames[:6])
    meaning = next((f": {words}" for pattern, words in _WAITING if re.search(pattern, near)), "")
    file = "/".join(Path(innermost["file"]).parts[-2:])
    return plain_line(f"{innermost['function']} ({file}, line {innermost['line']}){meaning}")
