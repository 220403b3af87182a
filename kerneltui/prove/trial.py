"""How the process of a trial ended: each kind of end is a result, told apart from the others."""

from __future__ import annotations

from collections.abc import Callable

from kerneltui.errors import MissingPackageError, WorkerAnswerError, WorkerDiedError, WorkerTimeoutError
from kerneltui.facts.proof import Ending
from kerneltui.interpreter import Worker
from kerneltui.text import plain_line

# Without these nothing can be tried; whatever else a kernel lacks is a result.
_NEEDED = ("torch", "transformers", "trl")
# Exceptions that say what went wrong with the device, not with what was tried.
_ENDINGS: dict[str, Ending] = {
    "BrokenDeviceError": "illegal_access",
    "OutOfMemoryError": "out_of_memory",
    "SystemExit": "exited",
}


def watch(run: Callable[[], None], worker: Worker) -> tuple[Ending, str | None, str | None]:
    """Return how `run`, which asks `worker`, ended, what more there is to say of that, and the end of its output.

    Raises MissingPackageError where the training packages are not there.
    """
    try:
        run()
    except WorkerDiedError as error:
        crashed = error.ending.startswith("signal")
        return ("crashed" if crashed else "exited"), error.ending, error.message or None
    except WorkerTimeoutError:
        return "hung", "it did not answer in time and was ended", worker.stderr_tail() or None
    except MissingPackageError as error:
        if error.package in _NEEDED:
            raise
        return "raised", plain_line(error.message), worker.stderr_tail() or None
    except WorkerAnswerError as error:
        return _ENDINGS.get(error.type_name, "raised"), plain_line(error.message), worker.stderr_tail() or None
    return "ok", None, None
