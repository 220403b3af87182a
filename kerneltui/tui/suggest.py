"""Completion of names of models and data: those used last, those of the cache, folders here, and those of the Hub."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

from textual.suggester import Suggester

from kerneltui.errors import HubError

# Seconds without another letter after which the Hub is asked, and the letters behind the owner from which on it is.
_PAUSE = 0.4
_LEAST = 2


class NameSuggester(Suggester):
    """Completes what is typed: the first known name that begins so, else a folder or file, else a name on the Hub.

    `known` gives the names of this machine and is asked once; `search` those of the Hub that begin so, best known
    first. Both are called beside the screen.
    """

    def __init__(self, known: Callable[[], Sequence[str]], search: Callable[[str], Sequence[str]]) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._known, self._search = known, search
        self._names: Sequence[str] | None = None
        self._typed = ""

    async def get_suggestion(self, value: str) -> str | None:
        """Return the whole of what begins with `value`, None where nothing does."""
        self._typed = value
        if self._names is None:
            self._names = await asyncio.to_thread(self._known)
        found = _first(self._names, value) or await asyncio.to_thread(complete_path, value)
        owner, slash, name = value.partition("/")
        if found or not (owner and slash and len(name) >= _LEAST) or Path(value).expanduser().parent.is_dir():
            return found
        await asyncio.sleep(_PAUSE)
        if self._typed != value:
            return None
        with contextlib.suppress(HubError):
            return _first(await asyncio.to_thread(self._search, value), value)
        return None


def complete_path(typed: str) -> str | None:
    """Return the first path on this machine that begins with what is typed, if that looks like one."""
    if not typed.startswith(("/", "./", "../", "~/")):
        return None
    folder, _, start = typed.rpartition("/")
    with contextlib.suppress(OSError):
        names = sorted(it.name for it in Path(f"{folder}/").expanduser().iterdir() if it.name.startswith(start))
        return next((f"{folder}/{name}" for name in names if start or not name.startswith(".")), None)
    return None


def _first(names: Sequence[str], value: str) -> str | None:
    return next((name for name in names if name.startswith(value) and name != value), None)
