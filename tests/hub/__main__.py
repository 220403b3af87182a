"""`python -m tests.hub --port N` serves the loopback Hub until it is interrupted."""

from __future__ import annotations

import argparse
import contextlib
import signal
import tempfile
from pathlib import Path

from tests.hub import LoopbackHub


def main() -> None:
    """Serve, and print the variables that make other commands use it."""
    parser = argparse.ArgumentParser(prog="python -m tests.hub", description="Serve the loopback Hub.")
    parser.add_argument("--port", type=int, default=0, help="default: a free one")
    parser.add_argument("--home", type=Path, help="for HF_HOME; default: a folder that is removed at the end")
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        LoopbackHub(arguments.home or Path(folder), arguments.port) as hub,
    ):
        for name, value in hub.environment().items():
            print(f"export {name}={value}", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    main()
