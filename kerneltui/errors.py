"""Errors that a person can cause or mend: each says what happened, why, and what to do next."""

from __future__ import annotations


class KerneltuiError(Exception):
    """Something that a person should read; shown without a traceback.

    `title` names what went wrong in a few words, `message` says why, `hint` is the next step. Ends a command with
    `exit_code` 1.
    """

    exit_code = 1

    def __init__(self, title: str, message: str = "", hint: str = "") -> None:
        super().__init__(title, message, hint)
        self.title = title
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return "\n".join(part for part in (self.title, self.message, self.hint) if part)


class UsageError(KerneltuiError):
    """The command, a file given to it, or a value in that file is not usable. Ends a command with 2."""

    exit_code = 2


class RecordError(UsageError):
    """A record on disk or given by the person cannot be read, or does not have the shape that it must have."""


class HubError(KerneltuiError):
    """The Hugging Face Hub did not give what was asked for. `kind` is one of `HUB_ERROR_KINDS`."""

    def __init__(self, kind: str, title: str, message: str = "", hint: str = "") -> None:
        super().__init__(title, message, hint)
        self.kind = kind


class WorkerError(KerneltuiError):
    """A worker process in the training interpreter could not answer."""


class WorkerDiedError(WorkerError):
    """The worker ended before it answered (a crash, a signal, an import that exits).

    `ending` is "signal N" or "exit code N".
    """

    def __init__(self, title: str, message: str, hint: str, ending: str) -> None:
        super().__init__(title, message, hint)
        self.ending = ending


class WorkerTimeoutError(WorkerError):
    """The worker did not answer in time and was ended."""


class WorkerAnswerError(WorkerError):
    """The worker's own code raised; `type_name` and `message` are those of the exception there."""

    def __init__(self, title: str, message: str, hint: str, type_name: str) -> None:
        super().__init__(title, message, hint)
        self.type_name = type_name


class MissingPackageError(WorkerError):
    """The training interpreter lacks a package. `package` is the name of the missing module."""

    def __init__(self, title: str, message: str, hint: str, package: str) -> None:
        super().__init__(title, message, hint)
        self.package = package
