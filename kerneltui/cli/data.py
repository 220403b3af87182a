"""The verb that shows data as the trainer sees it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kerneltui.cli import options
from kerneltui.cli.flags import refuse_mistyped
from kerneltui.cli.output import print_json, print_lines, progress
from kerneltui.cli.situation import asker_of, plan_of
from kerneltui.errors import KerneltuiError, UsageError

if TYPE_CHECKING:
    from kerneltui.data_report import DataReport
    from kerneltui.facts.copying import Copied
    from kerneltui.facts.scan import Scan
    from kerneltui.interpreter import Asker
    from kerneltui.plan.plan import Plan


@click.command(context_settings=options.PASS_ON)
@options.trainer
@options.arguments
@click.option("--rows", type=click.IntRange(1, 1000), default=100, show_default=True, help="How many rows to read.")
@click.option("--show", "shown", type=click.IntRange(0), default=3, show_default=True, help="How many to show.")
@click.option("--scan", is_flag=True, help="Read all rows, so that nothing is estimated.")
@click.option("--map", "pairs", multiple=True, metavar="NEW=OLD", help="A column of the copy that --write makes.")
@click.option("--write", "folder", metavar="DIR", help="Write a copy with the columns that the trainer reads; or auto.")
@options.python
@options.as_json
def data(
    trainer: str,
    arguments: tuple[str, ...],
    rows: int,
    shown: int,
    scan: bool,
    pairs: tuple[str, ...],
    folder: str | None,
    python: Path | None,
    as_json: bool,
) -> None:
    """Show the data as the trainer sees it: template, tokens, what counts for the loss, what is cut."""
    from kerneltui.show import terminal_width
    from kerneltui.show_data import copied_lines, report_lines

    if pairs and folder is None:
        raise UsageError("--map maps nothing by itself", hint="Name where the copy goes with --write, or --write auto.")
    plan = plan_of(trainer, arguments)
    with asker_of(plan, python) as asker:
        if folder is not None:
            copied = _copy(plan, asker, pairs, folder)
            print_json(copied) if as_json else print_lines(copied_lines(copied))
            return
        report = _look(plan, asker, rows, shown, scan)
    print_json(report) if as_json else print_lines(report_lines(report, width=terminal_width(100), examples=shown))
    if report.fit.ok is False:
        raise SystemExit(1)


def _look(plan: Plan, asker: Asker, rows: int, shown: int, scan: bool) -> DataReport:
    from kerneltui.data_report import look_at_data
    from kerneltui.plan.settings import read_settings

    with progress() as tell:
        tell("asking TRL about the configuration")
        refuse_mistyped(plan, asker)
        values = read_settings(plan, asker).values
        tell("reading the first rows")
        report = look_at_data(asker, values, Path(plan.cwd), plan.trainer, rows=rows, examples=min(shown, rows))
        return _scanned(report, plan, values, asker, tell) if scan else report


def _copy(plan: Plan, asker: Asker, pairs: tuple[str, ...], folder: str) -> Copied:
    """Write a copy by the mapping that is given or else proposed. Raises UsageError where there is none."""
    from kerneltui.data_report import find_mapping
    from kerneltui.facts.copying import copy_data, free_folder
    from kerneltui.facts.dataset import read_dataset
    from kerneltui.plan.settings import read_settings

    cwd = Path(plan.cwd)
    with progress() as tell:
        tell("asking TRL about the configuration")
        refuse_mistyped(plan, asker)
        values = read_settings(plan, asker).values
        folder = free_folder(values, cwd, plan.trainer) if folder == "auto" else folder
        if (cwd / folder).exists():
            raise UsageError(f"{folder} is there already", hint="Name a folder that is not there yet, or --write auto.")
        tell("reading the first rows")
        mapping = find_mapping(read_dataset(asker, values, cwd, plan.trainer, download=True), plan.trainer, pairs)
        copied = copy_data(asker, values, cwd, mapping, folder, on_rows=lambda rows: tell(f"{rows:,} rows"))
    assert copied is not None  # nobody stops it
    return copied


def _scanned(report: DataReport, plan: Plan, values: dict[str, Any], asker: Asker, tell: Any) -> DataReport:
    from kerneltui.data_report import with_scan
    from kerneltui.facts.scan import scan_data

    if report.data is None or report.data.prepared is None:
        reason = report.error or (report.data.no_tokens if report.data else None)
        raise KerneltuiError("The rows cannot be scanned", f"{reason}.", "Without --scan it shows what can be told.")
    total = report.data.total

    def on_scan(scan: Scan) -> None:
        of = f" of {'' if report.data and report.data.counted else 'about '}{total:,}" if total else ""
        tell(f"{scan.totals.rows:,}{of} rows")

    return with_scan(report, scan_data(asker, values, Path(plan.cwd), plan.trainer, on_scan=on_scan))
