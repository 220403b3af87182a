"""What reward functions gave to a few completions."""

from __future__ import annotations

from kerneltui.records import Record


class RewardTry(Record):
    """The scores of one kind of completion, one a row (None is no score), or the error with its line of code."""

    kind: str
    completions: tuple[str, ...]
    scores: tuple[float | None, ...] = ()
    error: str | None = None
    place: str | None = None


class RewardTrial(Record):
    """A reward function on completions that were made from the first rows: what is right, in two forms, and nothing.

    `error` says why it could not be found or imported, `no_answer` that it took too long or took its process with it.
    """

    name: str
    tries: tuple[RewardTry, ...] = ()
    error: str | None = None
    no_answer: str | None = None

    @property
    def scores(self) -> tuple[float, ...]:
        """All scores that it gave."""
        return tuple(score for found in self.tries for score in found.scores if score is not None)

    @property
    def failures(self) -> tuple[RewardTry, ...]:
        """The tries that it failed."""
        return tuple(found for found in self.tries if found.error is not None)
