"""The training interpreter: which one it is, and talking with worker processes inside it."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

from kerneltui.errors import (
    KerneltuiError,
    MissingPackageError,
    UsageError,
    WorkerAnswerError,
    WorkerDiedError,
    WorkerTimeoutError,
)
from kerneltui.installer import find_installer, install_command
from kerneltui.text import hide_secrets, plain

WORKER = Path(__file__).parent / "worker" / "run.py"

# What to install where a training package is missing: the extras make the resolver pick versions that fit together.
TRAINING_REQUIREMENT = "trl[kernels,liger,peft]"

# The asker answers questions about classes and tables; it must never take memory on a card that others use.
_NO_GPU = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "", "ZE_AFFINITY_MASK": ""}

ProgressCallback = Callable[[str], None]
PartCallback = Callable[[str, Any], None]


def find_interpreter(given: Path | None = None) -> Path:
    """Return the absolute path of the training interpreter: `given` (also a virtual environment's folder), else ours.

    Raises UsageError when there is no Python there.
    """
    if given is None:
        return Path(sys.executable)
    path = given.expanduser().absolute()
    if path.is_dir():
        path = path / "bin" / "python"
    if not path.is_file() or not os.access(path, os.X_OK):
        raise UsageError(
            f"No Python interpreter at {given}",
            f"{path} is not an executable file.",
            "Give the interpreter or the folder of its virtual environment with --python.",
        )
    return path


def worker_command(python: Path, program: str, *arguments: str) -> list[str]:
    """Return the command that runs the worker `program` inside `python`."""
    return [str(python), str(WORKER), program, *arguments]


class Worker:
    """One worker process; answers one request at a time and lives until `close` or the end of a `with` block."""

    def __init__(
        self,
        python: Path,
        program: str,
        *,
        environment: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        self.python = python
        self.program = program
        self._messages: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._count = 0
        self._ready = threading.Event()
        # A file, not a pipe: nobody has to drain it, and its end is there after a crash.
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the worker
        try:
            self._process = subprocess.Popen(
                worker_command(python, program),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                env={**os.environ, **(environment or {})},
                cwd=cwd,
                text=True,
                encoding="utf-8",
                start_new_session=True,
            )
        except OSError as error:
            self._stderr.close()
            raise UsageError(
                f"Cannot start {python}",
                error.strerror or str(error),
                "Give another interpreter with --python.",
            ) from error
        assert self._process.stdout
        self._reader = threading.Thread(
            target=_read_messages,
            args=(self._process.stdout, self._messages, self._ready),
            daemon=True,
            name=f"{program} reader",
        )
        self._reader.start()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def ask(
        self,
        question: str,
        *,
        timeout: float,
        on_progress: ProgressCallback | None = None,
        on_part: PartCallback | None = None,
        **arguments: Any,
    ) -> Any:
        """Return the worker's answer, made of dicts, lists, strings, numbers, booleans and None.

        `timeout` is in seconds from the request to the answer. Raises MissingPackageError, WorkerAnswerError,
        WorkerDiedError or WorkerTimeoutError; after the last two the process is gone.
        """
        self._count += 1
        self._send({"id": self._count, "ask": question, "arguments": arguments}, question)
        deadline = time.monotonic() + timeout
        while True:
            try:
                message = self._messages.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                self.kill()
                raise WorkerTimeoutError(
                    f"{self.program}: no answer to {question!r} within {timeout:.0f} s",
                    f"The process in {self.python} was ended. {self.stderr_tail()}".strip(),
                    "Try again; a first import from a slow disk can take minutes.",
                ) from None
            if message is None:
                raise self._died(question)
            if message["id"] != self._count:
                continue
            if "progress" in message:
                if on_progress:
                    on_progress(message["progress"])
            elif "part" in message:
                if on_part:
                    on_part(message["part"], message["value"])
            elif "error" in message:
                raise self._answer_error(question, message["error"])
            else:
                return message["answer"]

    def close(self) -> None:
        """End the process: first by the end of its input, then by a signal."""
        with contextlib.suppress(OSError):
            if self._process.stdin:
                self._process.stdin.close()
        try:
            self._process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self.kill()
        self._stderr.close()

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()
        self._process.wait()

    def stderr_tail(self, lines: int = 15) -> str:
        """Return the last lines that the process wrote to standard error or printed, as plain text."""
        self._stderr.seek(0, os.SEEK_END)
        size = self._stderr.tell()
        self._stderr.seek(max(0, size - 16384))
        text = self._stderr.read().decode("utf-8", "replace")
        return "\n".join(hide_secrets(plain(text)).strip().splitlines()[-lines:])

    def _send(self, request: dict[str, Any], question: str) -> None:
        assert self._process.stdin
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except (OSError, ValueError):
            raise self._died(question) from None

    def _died(self, question: str) -> KerneltuiError:
        code = self._process.wait()
        ending = f"signal {-code}" if code < 0 else f"exit code {code}"
        self._reader.join(5)
        if not self._ready.is_set():  # every worker says a word as soon as its interpreter runs
            return UsageError(
                f"{self.python} does not work as a Python interpreter",
                f"It ended ({ending}) instead of starting {WORKER.name}.\n{self.stderr_tail(3)}".strip(),
                "Give the interpreter or the folder of its virtual environment with --python.",
            )
        return WorkerDiedError(
            f"{self.program} in {self.python} ended ({ending}) at {question!r}",
            self.stderr_tail(),
            f"Run {shlex.join(worker_command(self.python, self.program))} by hand to see more.",
            ending,
        )

    def _answer_error(self, question: str, error: dict[str, str]) -> MissingPackageError | WorkerAnswerError:
        if error["kind"] == "missing_package":
            package = error["package"]
            return MissingPackageError(
                f"{package} is not installed in {self.python}",
                f"It is needed to answer {question!r} ({error['message']}).",
                shlex.join(install_command(self.python, find_installer(self.python), TRAINING_REQUIREMENT)),
                package,
            )
        return WorkerAnswerError(
            f"{self.program} could not answer {question!r}",
            hide_secrets(plain(f"{error['type']}: {error['message']}")),
            f"It was asked in {self.python}.",
            error["type"],
        )


class Asker:
    """The long-lived worker that answers questions about the installed libraries; started at the first question.

    It sees no GPU. It is started again when it has died. Safe to share between threads; one question at a time.
    """

    def __init__(self, python: Path, *, environment: Mapping[str, str] | None = None) -> None:
        self.python = python
        self._environment = {**(environment or {}), **_NO_GPU}
        self._worker: Worker | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Asker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(
        self,
        question: str,
        *,
        timeout: float = 180,
        on_progress: ProgressCallback | None = None,
        **arguments: Any,
    ) -> Any:
        """Return the asker's answer; raises as `Worker.ask`. The next question after a death starts a new process."""
        with self._lock:
            if self._worker is None or not self._worker.alive:
                if self._worker:
                    self._worker.close()
                self._worker = Worker(self.python, "ask", environment=self._environment)
            return self._worker.ask(question, timeout=timeout, on_progress=on_progress, **arguments)

    def prepare(self) -> None:
        """Import the training packages in the background, so that the next question need not wait as long."""

        def ask() -> None:
            with contextlib.suppress(KerneltuiError):  # the question that needs the packages tells it
                self.ask("trl.prepare")

        threading.Thread(target=ask, daemon=True, name="asker preparation").start()

    def close(self) -> None:
        """End the process if there is one, at once: it keeps nothing, and by itself it would take seconds to end."""
        while not self._lock.acquire(timeout=0.05):
            if self._worker:
                self._worker.kill()
        try:
            if self._worker:
                self._worker.kill()
                self._worker.close()
                self._worker = None
        finally:
            self._lock.release()


def _read_messages(stream: IO[str], messages: queue.Queue[dict[str, Any] | None], ready: threading.Event) -> None:
    """Put each message of `stream` in the queue, and None at its end; the first message sets `ready`."""
    with contextlib.suppress(ValueError), stream:  # a line cut off by a crash is no message, nor is another program's
        for line in stream:
            message = json.loads(line)
            if not isinstance(message, dict):
                break
            ready.set()
            messages.put(message)
    messages.put(None)
