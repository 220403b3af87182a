"""The probe's answers: what the training interpreter has, asked of a worker that an import can end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from kerneltui.errors import WorkerDiedError, WorkerTimeoutError
from kerneltui.facts.server import Gpu, Libraries, Package, Toolchain, Torch
from kerneltui.installer import find_installer
from kerneltui.interpreter import Worker
from kerneltui.records import from_builtins
from kerneltui.text import plain_line

# The module that shows whether a package imports. Some import nothing until they are used: of those, the module that
# training needs. Those that others build on come first, so that their reasons are told as their own.
IMPORTS = {
    "transformers": "transformers",
    "kernels": "kernels",
    "huggingface_hub": "huggingface_hub",
    "accelerate": "accelerate",
    "datasets": "datasets",
    "peft": "peft",
    "trl": "trl.trainer.sft_trainer",
    "liger-kernel": "liger_kernel.transformers",
    "flash-attn": "flash_attn",
    "vllm": "vllm",
}

# Fields of `Server` and "devices", and the reasons why others are missing.
Part = tuple[dict[str, Any], dict[str, str]]


class Probe:
    """The probe in `python`; started again when an import ended it, so that the next question gets its answer.

    All questions together have `timeout` seconds. For one thread, but `close` may be called from another.
    """

    def __init__(self, python: Path, timeout: float) -> None:
        self.python = python
        self._timeout = timeout
        self._deadline = time.monotonic() + timeout
        self._worker: Worker | None = Worker(python, "probe")
        self._said_nothing = True
        self._late: str | None = None

    def __enter__(self) -> Probe:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        self._late = "the probe was closed"
        if self._worker:
            self._worker.kill()
            self._worker.close()

    def ask(self, question: str, **arguments: Any) -> tuple[Any, str | None]:
        """Return the answer, or None and the reason why there is none: what it raised, or how it ended the process.

        Raises UsageError or WorkerError where the interpreter does not even start.
        """
        if self._late:
            return None, self._late
        try:
            if self._worker is None:
                self._worker = Worker(self.python, "probe")
            left = max(0.0, self._deadline - time.monotonic())
            answer = self._worker.ask(question, timeout=left, **arguments)
        except (WorkerDiedError, WorkerTimeoutError) as error:
            if self._said_nothing:
                raise
            return None, self._reason(error)
        self._said_nothing = False
        return answer["value"], answer["reason"]

    def _reason(self, error: WorkerDiedError | WorkerTimeoutError) -> str:
        """Return why there is no answer; the next question starts a new process, if there is time left."""
        if self._worker:
            self._worker.close()
            self._worker = None
        if isinstance(error, WorkerDiedError):
            last = error.message.splitlines()[-1:]
            return plain_line(": ".join([f"it ended the process ({error.ending})", *last]))
        self._late = f"no answer within {self._timeout:g} s; a first import from a slow disk can take minutes"
        return self._late


def read_parts(probe: Probe) -> Iterator[Part | str]:
    """Return what the probe finds, part after part: versions, torch, the libraries' tables, the imports.

    A text says what is done next. torch that is missing, broken or crashes is no error, and hides nothing of the rest.
    """
    yield "reading the versions of packages"
    python, packages = read_packages(probe)
    yield {"python": python, "packages": packages, "installer": find_installer(probe.python)}, {}
    yield "importing torch"
    fields, reasons = _read_torch(probe)
    if reasons and "torch" in packages:
        packages["torch"] = msgspec.structs.replace(packages["torch"], error=reasons["torch"])
    yield {**fields, "packages": {**packages}}, reasons
    yield "asking transformers and trl"
    yield _read("libraries", probe, Libraries)
    yield _read("toolchain", probe, Toolchain)
    yield from _import(probe, packages)


def read_packages(probe: Probe) -> tuple[str, dict[str, Package]]:
    """Return Python's version and the packages as their metadata describe them; nothing is imported for it."""
    answer, reason = probe.ask("python")
    assert answer, reason
    from kerneltui.facts.requirements import read_requirements  # after the probe was started, which takes longer

    version = str(answer["version"])
    packages = {
        name: {
            **package,
            "requires": read_requirements(
                package["requires"], answer["names"], version=version, implementation=answer["implementation"]
            ),
        }
        for name, package in answer["packages"].items()
    }
    return version, from_builtins(packages, dict[str, Package], "the probe's packages")


def _read_torch(probe: Probe) -> Part:
    answer, reason = probe.ask("torch")
    if answer is None:
        return {"torch": None, "devices": ()}, {"torch": reason or "torch told nothing"}
    devices = from_builtins(answer.pop("devices"), tuple[Gpu, ...], "the probe's devices")
    return {"torch": from_builtins(answer, Torch, "the probe's torch"), "devices": devices}, {}


def _read(name: str, probe: Probe, kind: type[Any]) -> Part:
    answer, reason = probe.ask(name)
    if answer is None:
        return {name: None}, {name: reason or "told nothing"}
    return {name: from_builtins(answer, kind, f"the probe's {name}")}, {}


def _import(probe: Probe, packages: dict[str, Package]) -> Iterator[Part | str]:
    """Import each installed package of `IMPORTS`; a part comes where one does not import."""
    for name, module in IMPORTS.items():
        if name not in packages:
            continue
        yield f"importing {name}"
        _, reason = probe.ask("import", name=module)
        if reason:
            packages[name] = msgspec.structs.replace(packages[name], error=reason)
            yield {"packages": {**packages}}, {}
