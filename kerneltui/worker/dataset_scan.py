"""All rows of a data set, piece by piece: each question reads the next ones, so that whoever asks can stop."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from .datasets_adapter import first_rows, joined, opened, refusal
from .prepared import NotPreparedError, prepare_rows
from .tokenized import load_tokenizer
from .trl_adapter import directory

# TRL packs the rows of a data set by so many at a time (`datasets` maps in batches of 1000).
_ROWS = 1000
# Fewer of them where they are long, in characters: a question must not take minutes.
_CHARACTERS = 4_000_000

_open: dict[int, Scan] = {}
_numbers = itertools.count(1)


class Scan:
    """Gives what a trainer makes of the next rows, until there are none."""

    def __init__(
        self, sources: list[dict[str, Any]], trainer: str, cwd: str, options: dict[str, Any], tokenizer: Any
    ) -> None:
        self._trainer, self._options, self._tokenizer = trainer, options, tokenizer
        self.cwd, self._read = cwd, 0
        self._pieces = pieces(sources)

    def more(self) -> dict[str, Any]:
        """Return "rows", how many were read in all, and "prepared" or "refused" of the newest; "done" at the end."""
        table = next(self._pieces, None)
        if table is None:
            return {"rows": self._read, "done": True}
        before, self._read = self._read, self._read + len(table)
        made = prepare_rows(table, self._trainer, self._options, self._tokenizer, examples=0)
        if refused := made.get("refused"):
            row = refused["row"] + before if refused["row"] else None
            return {"rows": self._read, "refused": {**refused, "row": row}, "done": True}
        return {"rows": self._read, "prepared": made, "done": False}


def pieces(sources: list[dict[str, Any]]) -> Iterator[Any]:
    """Give the rows of data sets one after another, as tables with the features that they have together."""
    import datasets

    features = joined([first_rows(source, 20) for source in sources]).features
    for source in sources:
        with opened(source) as stream:
            rows = ({name: row.get(name) for name in features} for row in stream)
            while piece := list(_some(rows)):
                yield datasets.Dataset.from_list(piece, features=features)


def _some(rows: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    room = _CHARACTERS
    for row in itertools.islice(rows, _ROWS):
        yield row
        room -= sum(len(str(value)) for value in row.values())
        if room < 0:
            return


def begin(
    sources: list[dict[str, Any]],
    trainer: str,
    cwd: str,
    model: str | None,
    revision: str | None,
    options: dict[str, Any],
) -> dict[str, Any]:
    """Return the number of a new scan, or why there can be none: "reason"."""
    if reason := not_whole(sources):
        return {"reason": reason}
    try:
        with directory(cwd):
            tokenizer = load_tokenizer(str(model), revision)
    except Exception:  # noqa: BLE001 - see `tokenized`
        return {"reason": "the model's tokenizer is not on this machine"}
    number = next(_numbers)
    _open[number] = Scan(sources, trainer, cwd, options, tokenizer)
    return {"scan": number}


def more(scan: int) -> dict[str, Any]:
    """Return what the next rows of a scan give, see `Scan.more`; what the libraries refuse as `{"error_type", …}`."""
    try:
        with directory(_open[scan].cwd):
            return _open[scan].more()
    except NotPreparedError as why:
        return {"reason": str(why)}
    except Exception as error:  # noqa: BLE001 - told apart by type in the front end
        return {**refusal(error), "part": None}


def end(scan: int) -> None:
    """Forget a scan."""
    _open.pop(scan, None)


def not_whole(sources: list[dict[str, Any]]) -> str | None:
    """Return why the rows that training takes of data sets cannot be told while these are read one after another."""
    for source in sources:
        split = str(source.get("split") or "train")
        if "[" in split or "+" in split:
            return f"it would take whole splits, and this is a part or a sum of some: {split}"
        if source.get("fraction") is not None:
            return "it would take all rows, and the parts have fractions"
    return None


HANDLERS = {"data.scan": begin, "data.scan.more": more, "data.scan.end": end}
