"""A scan of all rows of a data set, which replaces what its first rows let one estimate."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from kerneltui.errors import KerneltuiError
from kerneltui.facts.dataset import dataset_name, reader_arguments, refusal, sources_of
from kerneltui.facts.prepared import Prepared, Refusal
from kerneltui.facts.totals import Totals, totals
from kerneltui.interpreter import Asker
from kerneltui.records import Record, from_builtins


class Scan(Record):
    """What was seen of all rows so far; `done` once there are no more, or the trainer refused one (`refused`)."""

    totals: Totals = Totals()
    refused: Refusal | None = None
    done: bool = False


def scan_data(
    asker: Asker,
    values: dict[str, Any],
    cwd: Path,
    trainer: str,
    *,
    on_scan: Callable[[Scan], None] | None = None,
    stop: Callable[[], bool] = lambda: False,
    timeout: float = 600,
) -> Scan:
    """Return what `trainer` makes of all rows of the data that `values` name, read one piece after another.

    After each piece `on_scan` gets what is known so far; where `stop` says so, that is returned. Raises KerneltuiError
    where the rows cannot be read, or cannot be judged one after another.
    """
    name, sources = dataset_name(values) or "", sources_of(values)
    begun = asker.ask(
        "data.scan", sources=sources, trainer=trainer, cwd=str(cwd), **reader_arguments(values), timeout=timeout
    )
    found = Scan()
    number = _answer(begun, name, sources)["scan"]
    try:
        while not found.done and not stop():
            piece = _answer(asker.ask("data.scan.more", scan=number, timeout=timeout), name, sources)
            found = _add(found, piece, f"the rows of {name}")
            if on_scan:
                on_scan(found)
    finally:
        asker.ask("data.scan.end", scan=number)
    return found


def _add(found: Scan, piece: dict[str, Any], source: str) -> Scan:
    made, refused = piece.get("prepared"), piece.get("refused")
    return Scan(
        totals=found.totals + totals(from_builtins(made, Prepared, source)) if made else found.totals,
        refused=from_builtins(refused, Refusal, source) if refused else None,
        done=piece["done"],
    )


def _answer(answer: dict[str, Any], name: str, sources: list[dict[str, Any]]) -> dict[str, Any]:
    if "reason" in answer:
        raise KerneltuiError(f"{name} cannot be scanned", f"{answer['reason']}.")
    if "error" in answer:
        raise refusal(name, sources, {**answer, "part": 0 if len(sources) == 1 else answer["part"]})
    return answer
