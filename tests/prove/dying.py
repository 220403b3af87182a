"""An interpreter whose preflight dies in a chosen way: the protocol is the real one, and nothing heavy is imported."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any


def make_interpreter(folder: Path, way: str) -> Path:
    """Return an executable that runs this file in place of the worker."""
    path = folder / "python"
    path.write_text(f'#!/bin/sh\nDYING={way} exec {sys.executable} {__file__} "$@"\n')
    path.chmod(0o755)
    return path


class BrokenDeviceError(Exception):
    """As the worker's."""


class OutOfMemoryError(Exception):
    """As torch's."""


PASSED: dict[str, Any] = {"name": "forward", "case": "one", "outcome": "passed", "figures": {"error": 0.1}}


def _load(**_: Any) -> dict[str, Any]:
    if os.environ["DYING"] == "refuses":
        raise ValueError("An error occurred while trying to load from 'a/b': undefined symbol.")
    return {"name": "a/b", "seconds": 0.5, "loaded": [], "cases": ["one", "two", "three"], "speed": "dense"}


def _case(number: int) -> list[dict[str, Any]]:
    if number == 0:
        return [PASSED]
    print("half a \x1b[31mword")
    sys.stdout.flush()
    match os.environ["DYING"]:
        case "crashed":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "exited":
            os._exit(1)
        case "exits":
            sys.exit("no such device")
        case "hung":
            time.sleep(600)
        case "illegal":
            raise BrokenDeviceError("CUDA error: an illegal memory access was encountered")
        case "memory":
            raise OutOfMemoryError("CUDA out of memory")
    return [{**PASSED, "case": "two"}]


if __name__ == "__main__":
    from kerneltui.worker.protocol import serve

    serve(
        {
            "preflight.load": _load,
            "preflight.case": _case,
            "preflight.speed": lambda implementation: {"forward": 1.0, "backward": 2.0},
        }
    )
