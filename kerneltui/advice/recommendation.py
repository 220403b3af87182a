"""A recommended answer, with its reason."""

from __future__ import annotations

from typing import Any

from kerneltui.records import Record


class Recommendation(Record):
    """An answer to a step: fields to set and to remove, the trainer, the GPUs, variables for the run; and why.

    `reasons` tell for each field of several why it has its value.
    """

    why: str
    values: dict[str, Any] = {}
    remove: tuple[str, ...] = ()
    trainer: str | None = None
    gpus: tuple[int, ...] | None = None
    environment: dict[str, str] = {}
    reasons: dict[str, str] = {}
