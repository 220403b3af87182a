"""Start training as the `trl` command does: `accelerate launch`, without this directory on the path."""

from __future__ import annotations

import os
import signal
import threading
from typing import BinaryIO

# Set where the processes must not outlive the one that started them; it holds the other end of standard input.
BOUND = "KERNELTUI_BOUND"


def main() -> None:
    """Run `accelerate launch` with this program's arguments."""
    if os.environ.get(BOUND):
        held = os.fdopen(os.dup(0), "rb")
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # what the training finds there, as in a run
        threading.Thread(target=_end_with, args=(held,), daemon=True).start()
    from accelerate.commands.launch import launch_command, launch_command_parser

    launch_command(launch_command_parser().parse_args())


def _end_with(held: BinaryIO) -> None:
    """End this process group when `held` ends: whoever had its other end is gone."""
    held.read()
    os.killpg(0, signal.SIGTERM)
