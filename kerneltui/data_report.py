"""A look at the data of a plan: its first rows as the trainer sees them, and each part of a mixture by itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from kerneltui.advice.fit import Fit, fits, known_fit
from kerneltui.advice.mapping import mapped, propose, rename_roles
from kerneltui.errors import KerneltuiError, UsageError
from kerneltui.facts.dataset import DatasetFacts, read_dataset, sources_of
from kerneltui.facts.mapping import ColumnMapping, parse_columns
from kerneltui.facts.scan import Scan
from kerneltui.facts.totals import Totals, totals
from kerneltui.interpreter import Asker
from kerneltui.records import Document, Record


class Part(Record):
    """A part of a mixture: what it is, and whether the trainer could read it alone; `error` says why it was not read.

    `share` is its `fraction` of the mixture, None where all its rows are taken.
    """

    name: str
    configuration: str | None
    split: str
    share: float | None
    fit: Fit
    data: DatasetFacts | None = None
    error: str | None = None


class DataReport(Document):
    """The data of a plan for its trainer. `totals` are sums over the rows that were read, all of them after a `scan`.

    `data` is None where the parts of a mixture do not go together; `error` then says why. `batch` is how many rows a
    batch has on each device; `mapping` is one with which a trainer that cannot read the data could.
    """

    trainer: str
    fit: Fit
    totals: Totals = Totals()
    data: DatasetFacts | None = None
    error: str | None = None
    parts: tuple[Part, ...] = ()
    mapping: ColumnMapping | None = None
    scan: Scan | None = None
    batch: int = 1


def look_at_data(
    asker: Asker, values: dict[str, Any], cwd: Path, trainer: str, *, rows: int = 100, examples: int | None = None
) -> DataReport:
    """Return a look at the first `rows` of the data that `values` name, `examples` of them (None: all) by token.

    A tokenizer that is not on this machine is got from the Hub. Raises as `read_dataset`, but for the parts of a
    mixture: what is wrong with them is in the report.
    """
    shown, field = rows if examples is None else examples, str(values.get("dataset_text_field") or "text")
    batch = values.get("per_device_train_batch_size")
    found = DataReport(
        trainer=trainer,
        fit=Fit(ok=None, reason="the data was not read"),
        batch=batch if isinstance(batch, int) else 1,
        parts=_parts(asker, values, cwd, trainer, field),
    )
    try:
        data = read_dataset(asker, values, cwd, trainer, rows=rows, examples=shown, download=True)
    except KerneltuiError as error:
        if not found.parts:
            raise
        return msgspec.structs.replace(found, error=str(error), fit=Fit(ok=False, reason=error.title))
    sums = totals(data.prepared) if data.prepared else Totals(rows=len(data.rows))
    fit = fits(data, trainer, text_field=field)
    mapping = propose(data, trainer) if fit.ok is False else rename_roles(data, trainer)
    return msgspec.structs.replace(found, data=data, totals=sums, fit=fit, mapping=mapping)


def find_mapping(data: DatasetFacts, trainer: str, pairs: Sequence[str] = ()) -> ColumnMapping:
    """Return the mapping that `pairs` such as "prompt=question" name, else the one that is proposed.

    Raises UsageError where that does not make data which the trainer can read.
    """
    if not pairs:
        found = propose(data, trainer) if fits(data, trainer).ok is False else rename_roles(data, trainer)
        if found is None:
            raise UsageError(
                "No mapping is known for these columns",
                f"They are {', '.join(data.types)}.",
                "Name the columns: --map NEW=OLD, such as --map prompt=question --map completion=answer",
            )
        return found
    columns = parse_columns(pairs, data.types)
    texts = all(data.types[name] == "text" for found in columns.values() for name in found)
    mapping = ColumnMapping(columns=columns, chat=texts and "prompt" in columns and data.chat_template is True)
    if (fit := known_fit(mapped(data, mapping), trainer)).ok is False:
        raise UsageError(f"{trainer} could not read that either", f"{fit.reason}.", "Map the columns that it wants.")
    return mapping


def with_scan(report: DataReport, scan: Scan) -> DataReport:
    """Return the report with what a scan saw so far; a row that the trainer refuses makes the data unfit."""
    fit = report.fit
    if scan.refused:
        where = f"row {scan.refused.row:,}: " if scan.refused.row else ""
        fit = Fit(ok=False, reason=f"{where}{scan.refused.error}")
    return msgspec.structs.replace(report, scan=scan, totals=scan.totals, fit=fit)


def _parts(asker: Asker, values: dict[str, Any], cwd: Path, trainer: str, field: str) -> tuple[Part, ...]:
    """Return the parts of a mixture, none where there is but one."""
    entries = sources_of(values)
    return tuple(_part(asker, values, entry, cwd, trainer, field) for entry in entries) if len(entries) > 1 else ()


def _part(asker: Asker, values: dict[str, Any], entry: dict[str, Any], cwd: Path, trainer: str, field: str) -> Part:
    files = entry.get("data_files")
    found = Part(
        name=str(files if isinstance(files, str) else entry["path"]),
        configuration=entry.get("name"),
        split=str(entry.get("split") or "train"),
        share=entry.get("fraction"),
        fit=Fit(ok=False, reason=""),
    )
    try:
        data = read_dataset(asker, {**values, "datasets": [entry]}, cwd, trainer, examples=0, download=True)
    except KerneltuiError as error:
        return msgspec.structs.replace(found, error=str(error), fit=Fit(ok=False, reason=error.title))
    return msgspec.structs.replace(found, data=data, fit=fits(data, trainer, text_field=field))
