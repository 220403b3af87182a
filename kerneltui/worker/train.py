"""Training: the installed TRL script of a trainer (ours for `trl.experimental`), with one callback that records.

Started by `accelerate launch` in place of the script: `run.py train TRAINER [ARGUMENT …]`; the arguments are the
script's. `KERNELTUI_RUN` and `KERNELTUI_ATTEMPT` name the record.
"""

from __future__ import annotations

import faulthandler
import importlib.util
import os
import runpy
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import experimental
from .record import Record, describe
from .remarks import note_warnings

if TYPE_CHECKING:
    from .recorder import Recorder


def main() -> None:
    """Run the training script and write how it ended; its exceptions and exit codes pass through."""
    trainer, *arguments = sys.argv[1:]
    record = Record(
        Path(os.environ["KERNELTUI_RUN"]),
        int(os.environ["KERNELTUI_ATTEMPT"]),
        int(os.environ.get("RANK", "0")),
    )
    record.event("process_start", trainer=trainer, pid=os.getpid(), **_ready_stacks(record))
    if record.rank == 0:
        note_warnings(record)
    try:
        recorder = _install(record)
        if any(word.startswith("--resume_from_checkpoint") for word in arguments):
            _hand_on_checkpoint()
        _run_script(trainer, arguments)
    except KeyboardInterrupt:
        record.end("interrupted")
        raise
    except SystemExit as error:
        record.end("finished" if not error.code else "failed", error)
        raise
    except BaseException as error:
        record.end("failed", error)
        raise
    record.end("stopped" if recorder and recorder.stopped else "finished")


def _ready_stacks(record: Record) -> dict[str, Any]:
    """Have the stacks of all threads written to a file when a signal asks for it, and return where and at which.

    Python need not run for that: it also works where a library hangs in native code.
    """
    path = record.run / "attempts" / str(record.attempt) / f"stacks-{record.rank}.txt"
    number = getattr(signal, "SIGUSR2", None)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    except OSError:
        return {}
    if number is None:
        return {}
    faulthandler.register(number, file=descriptor, all_threads=True)
    return {"stacks": str(path), "stacks_signal": int(number)}


def _run_script(trainer: str, arguments: list[str]) -> None:
    """Run the script of a trainer, TRL's own where it has one."""
    script = importlib.util.find_spec(f"trl.scripts.{trainer}")
    if script is None or script.origin is None:
        sys.argv = [trainer, *arguments]
        experimental.main(trainer)
        return
    sys.argv = [script.origin, *arguments]
    runpy.run_path(script.origin, run_name="__main__")


def _hand_on_checkpoint() -> None:
    from transformers import Trainer

    from .resume import hand_on

    hand_on(Trainer)


def _install(record: Record) -> Recorder | None:
    """Return the installed recorder, None where this transformers has no place for it: training needs none."""
    try:
        from .recorder import install

        return install(record)
    except Exception as error:  # noqa: BLE001 - whatever it is, the script fails of it by itself or trains without it
        record.event("recorder_failed", place="install", error=describe(error))
        return None
