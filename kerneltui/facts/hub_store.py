"""Answers of the Hub that were kept: in memory, and on disk where a folder is given."""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from kerneltui.facts.hub_errors import Reply

# An answer about a commit never changes.
FOREVER = math.inf
# Answers on disk that nobody has read for so long, in seconds, are removed.
_UNREAD = 60 * 24 * 3600.0
# Nor is a larger one worth its place; a listing of a thousand kernels is half as large.
_LARGEST = 4 * 1024 * 1024


class Kept(msgspec.Struct, frozen=True):
    """An answer and when it was last known to hold (seconds since the epoch)."""

    reply: Reply
    time: float

    @property
    def etag(self) -> str | None:
        """What the Hub calls this state of the answer, for asking whether it still holds."""
        return self.reply.headers.get("etag")


class ReplyStore:
    """Answers by endpoint, address and identity (a token sees other repositories than none). Safe between threads.

    A file that cannot be written or read counts as not there: keeping answers is a convenience. Files are readable by
    their owner alone; the token is in none of them.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._memory: dict[str, Kept] = {}
        self._lock = threading.Lock()

    def get(self, key: str) -> Kept | None:
        """Return the answer that was kept under a key."""
        with self._lock:
            found = self._memory.get(key)
        return found or self._read(key)

    def put(self, key: str, reply: Reply) -> None:
        """Keep an answer that holds now."""
        names = ("etag", "content-type", "x-error-code", "x-error-message")
        headers = {name: reply.headers[name] for name in names if name in reply.headers}
        kept = Kept(msgspec.structs.replace(reply, headers=headers), time.time())
        with self._lock:
            self._memory[key] = kept
        if self._folder and len(reply.body) <= _LARGEST:
            _write(self._path(key), msgspec.json.encode(kept))

    def tidy(self) -> None:
        """Remove files that nobody has read for two months."""
        limit = time.time() - _UNREAD
        with contextlib.suppress(OSError):
            for path in self._folder.iterdir() if self._folder else ():
                if path.stat().st_mtime < limit:
                    path.unlink()

    def _read(self, key: str) -> Kept | None:
        if self._folder is None:
            return None
        path = self._path(key)
        try:
            kept = msgspec.json.decode(path.read_bytes(), type=Kept)
            os.utime(path)
        except (OSError, msgspec.DecodeError):
            return None
        with self._lock:
            self._memory[key] = kept
        return kept

    def _path(self, key: str) -> Path:
        assert self._folder
        return self._folder / f"{hashlib.sha256(key.encode()).hexdigest()}.json"


def key_of(endpoint: str, path: str, params: Mapping[str, Any] | None, token: str | None) -> str:
    """Return what an answer is kept under; of the token only a hash goes into it."""
    asked = "&".join(f"{name}={value}" for name, value in sorted((params or {}).items()))
    identity = hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest() if token else ""
    return f"{endpoint}\n{path}?{asked}\n{identity}"


def _write(path: Path, data: bytes) -> None:
    """Replace a file; others may read and write it at the same time."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            Path(temporary).replace(path)
        except OSError:
            Path(temporary).unlink(missing_ok=True)
