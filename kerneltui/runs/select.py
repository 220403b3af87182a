"""Choosing among runs: by words of a filter, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from kerneltui.runs.view_record import RunView

# What a list can be sorted by, the greatest or newest first; a run without the value comes last.
SORTS: dict[str, Callable[[RunView], float | str | None]] = {
    "age": lambda view: _moment(view.started),
    "name": lambda view: view.name,
    "loss": lambda view: None if view.loss is None else -view.loss,
    "speed": lambda view: view.speed,
    "hours": lambda view: view.gpu_hours,
    "state": lambda view: view.phase,
    "model": lambda view: view.model,
    "trainer": lambda view: view.trainer,
}
_BY_LETTER = ("name", "state", "model", "trainer")


def sort_views(views: Sequence[RunView], by: str) -> list[RunView]:
    """Return the views in the order of one of `SORTS`: words from a to z, numbers the best first."""
    key = SORTS[by]
    having = [view for view in views if key(view) is not None]
    rest = [view for view in views if key(view) is None]
    return [*sorted(having, key=key, reverse=by not in _BY_LETTER), *rest]  # type: ignore[arg-type]


def filter_views(views: Sequence[RunView], words: str) -> list[RunView]:
    """Return the views in which all words are found: in name, state, trainer, model, attention or remark.

    A word that begins with # is a tag. Case does not count.
    """
    wanted = words.casefold().split()
    return [view for view in views if all(_has(view, word) for word in wanted)]


def _has(view: RunView, word: str) -> bool:
    if word.startswith("#"):
        return word[1:] in (tag.casefold() for tag in view.tags)
    told = (view.name, view.phase, view.trainer, view.model, view.attention, view.remark, *view.tags)
    return any(word in text.casefold() for text in told if text)


def _moment(time: str | None) -> float | None:
    try:
        return datetime.fromisoformat(time).timestamp() if time else None
    except ValueError:
        return None
