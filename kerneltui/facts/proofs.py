"""Preflights that were made on this machine, kept by what they are about."""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path

import msgspec

from kerneltui.errors import KerneltuiError
from kerneltui.facts.proof import Preflight, Subject
from kerneltui.paths import cache_directory, write_atomically
from kerneltui.records import read_record, to_json


def find_preflight(subject: Subject, folder: Path | None = None, *, measured: bool = True) -> Preflight | None:
    """Return the preflight of just this subject that was kept, None where there is none or it cannot be read.

    Without `measured` it may be one whose speed was measured at another length or batch.
    """
    path = _path(subject, folder)
    if not path.is_file():
        return None
    with contextlib.suppress(KerneltuiError):
        found = read_record(path, Preflight)
        wanted = subject if measured else tried_as(subject)
        if (found.subject if measured else tried_as(found.subject)) == wanted:
            return msgspec.structs.replace(found, cached=True)
    return None


def tried_as(subject: Subject) -> Subject:
    """Return a subject without what matters to the measurement alone."""
    return msgspec.structs.replace(subject, length=0, batch=1, packed=False)


def keep_preflight(preflight: Preflight, folder: Path | None = None) -> None:
    """Keep a preflight for the next time; what says nothing of the kernel (no memory for it) is not kept.

    A folder that cannot be written keeps nothing.
    """
    if preflight.ended == "out_of_memory":
        return
    path = _path(preflight.subject, folder)
    with contextlib.suppress(KerneltuiError, OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, to_json(preflight))


def _path(subject: Subject, folder: Path | None) -> Path:
    name = hashlib.sha256(to_json(tried_as(subject), indent=0)).hexdigest()[:32]
    return (folder or cache_directory() / "proofs") / f"{name}.json"
