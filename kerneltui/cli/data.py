"""The verb that shows data as the trainer sees it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kerneltui.cli import options
from kerneltui.cli.flags import refuse_mistyped
from kerneltui.cli.output import print_json, print_lines, progress
from kerneltui.cli.situation import asker_of, plan_of
from kerneltui.errors import KerneltuiError

if TYPE_CHECKING:
    from kerneltui.data_report import DataReport
    from kerneltui.facts.scan import Scan
    from kerneltui.interpreter import Asker
    from kerneltui.plan.plan import Plan


@click.command(context_settings=options.PASS_ON)
@options.trainer
@options.arguments
@click.option("--rows", type=click.IntRange(1, 1000), default=100, show_default=True, help="How many rows to read.")
@click.option("--show", "shown", type=click.IntRange(0), default=3, show_default=True, help="How many to show.")
@click.option("--scan", is_flag=True, help="Read all rows, so that nothing is estimated.")
@options.python
@options.as_json
def data(
    trainer: str, arguments: tuple[str, ...], rows: int, shown: int, scan: bool, python: Path | None, as_json: bool
) -> None:
    """Show the data as the trainer sees it: template, tokens, what counts for the loss, what is cut."""
    from kerneltui.show import terminal_width
    from kerneltui.show_data import report_lines

    plan = plan_of(trainer, arguments)
    with asker_of(plan, python) as asker:
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
