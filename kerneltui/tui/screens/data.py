"""The data on screen: its rows one by one as the trainer sees them, their lengths, and what they add up to."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList
from textual.widgets.option_list import Option
from textual.worker import get_current_worker

from kerneltui.data_report import DataReport, look_at_data, with_scan
from kerneltui.errors import KerneltuiError
from kerneltui.facts.dataset import dataset_name
from kerneltui.facts.mapping import ColumnMapping
from kerneltui.facts.scan import Scan, scan_data
from kerneltui.show_data import part_line, total_lines
from kerneltui.text import plain_line
from kerneltui.tui.keys import DATA, bindings
from kerneltui.tui.screens.base import BaseScreen
from kerneltui.tui.screens.data_sources import ChangesData
from kerneltui.tui.widgets.key_footer import KeyFooter
from kerneltui.tui.widgets.lines import Lines, Note
from kerneltui.tui.widgets.pane import Pane, ScrollPane
from kerneltui.tui.widgets.row_view import MODES, histogram_content, report_line, row_content, row_title

ROWS = 100
"""How many rows are read for a look."""


class DataScreen(ChangesData):
    """One row in front, beside it the lengths of all that were read and what they add up to."""

    KEYS = DATA
    PURPOSE = (
        "The first rows as the trainer sees them, after template and tokenizer: what counts for the loss (▌),"
        " what is cut off (×), and the padding of a batch (○)."
    )
    BINDINGS = bindings(DATA)
    CSS_PATH = "data.tcss"
    AUTO_FOCUS = "#row"

    @dataclass
    class Read(Message):
        """The rows were read."""

        report: DataReport

    @dataclass
    class Scanned(Message):
        """A scan of all rows has come so far."""

        scan: Scan

        def can_replace(self, message: Message) -> bool:
            """A later state replaces one that was not yet shown."""
            return isinstance(message, DataScreen.Scanned)

    def __init__(self, values: Mapping[str, Any], cwd: Path, trainer: str) -> None:
        super().__init__(values, cwd, trainer)
        self.report: DataReport | None = None
        self.at = 0
        self._mode = MODES[0]
        self._scanning: threading.Event | None = None
        self._busy = ""

    def compose(self) -> ComposeResult:
        """Lay out the row beside the sums."""
        yield Note("", id="title")
        parts = OptionList(id="parts", classes="pane")
        parts.border_title = "Parts"
        parts.display = False
        yield parts
        with Horizontal(id="body"):
            with ScrollPane(id="row"):
                yield Note("", id="row-text")
            with Vertical(id="sums"):
                with Pane(id="lengths"):
                    yield Lines(id="histogram")
                with Pane(id="totals"):
                    yield Note("", id="totals-text")
        yield KeyFooter(id="keys")

    def on_mount(self) -> None:
        """Read the first rows."""
        self.query_one(KeyFooter).show(DATA)
        self.say("reading the first rows")
        self.read()

    def on_unmount(self) -> None:
        """End a scan."""
        self._stop_scan()

    # Reading, behind the screen

    @work(thread=True, exclusive=True, group="data", description="reading the first rows of the data")
    def read(self) -> None:
        """Read the first rows."""
        worker = get_current_worker()
        try:
            report = look_at_data(self.kerneltui.session.reader, self.values, self.cwd, self.trainer, rows=ROWS)
        except KerneltuiError as error:
            if not worker.is_cancelled:
                self.post_message(self.Failed(error))
            return
        if not worker.is_cancelled:
            self.post_message(self.Read(report))

    @work(thread=True, exclusive=True, group="scan", description="reading all rows of the data")
    def scan(self, stop: threading.Event) -> None:
        """Read all rows, until `stop` is set."""

        def tell(scan: Scan) -> None:
            if not stop.is_set():
                self.post_message(self.Scanned(scan))

        reader = self.kerneltui.session.reader
        try:
            scan_data(reader, self.values, self.cwd, self.trainer, on_scan=tell, stop=stop.is_set)
        except KerneltuiError as error:
            if not stop.is_set():
                self.post_message(self.Failed(error))

    @on(Read)
    def _read(self, message: Read) -> None:
        self.report, self.at = message.report, 0
        self.say("")
        self._show()

    @on(Scanned)
    def _scanned(self, message: Scanned) -> None:
        if self.report is None or self._scanning is None:
            return
        self.report = with_scan(self.report, message.scan)
        total = self.report.data.total if self.report.data else None
        of = f" of {total:,}" if total else ""
        self.say("" if message.scan.done else f"read {message.scan.totals.rows:,}{of} rows")
        if message.scan.done:
            self._scanning = None
        self._show_sums()

    @on(BaseScreen.Failed)
    def _failed(self, message: BaseScreen.Failed) -> None:
        self._scanning = None
        self.say("")
        if self.report is None:
            first, *rest = str(message.error).split("\n")
            words = [Content.styled(f"✖ {plain_line(first)}", "$error"), *map(Content, rest)]
            self.query_one("#row-text", Note).update(Content("\n").join(words))
        else:
            self.kerneltui.show_error(message.error)

    # Keys

    def action_next_row(self) -> None:
        """Show the next row."""
        self._go(self.at + 1)

    def action_previous_row(self) -> None:
        """Show the row before."""
        self._go(self.at - 1)

    def action_mode(self) -> None:
        """Show the row as text, token by token, or as it is stored."""
        self._mode = MODES[(MODES.index(self._mode) + 1) % len(MODES)]
        self._show_row()

    def action_scan(self) -> None:
        """Read all rows, or stop that."""
        if self._scanning is not None:
            self._stop_scan()
            self.say("")
            return
        if self.report is None or self.report.data is None or self.report.data.prepared is None:
            self.notify("There is nothing to scan: the rows are not tokenized.", severity="warning")
            return
        self._scanning = threading.Event()
        self.say("reading all rows")
        self.scan(self._scanning)

    def on_resize(self) -> None:
        """Break the lines anew."""
        self.call_after_refresh(self._show)

    @property
    def part(self) -> int:
        """The part under the cursor."""
        return self.query_one("#parts", OptionList).highlighted or 0

    @property
    def mapping(self) -> ColumnMapping | None:
        """The mapping with which the trainer could read the data."""
        return self.report.mapping if self.report else None

    def read_anew(self) -> None:
        """Read the first rows of other data."""
        self._stop_scan()
        self.report = None
        self.query_one("#row-text", Note).update("")
        self.say("reading the first rows")
        self.read()

    # Showing

    def _stop_scan(self) -> None:
        if self._scanning is not None:
            self._scanning.set()
            self._scanning = None

    def _go(self, at: int) -> None:
        rows = len(self.report.data.rows) if self.report and self.report.data else 0
        if rows and (at := max(0, min(at, rows - 1))) != self.at:
            self.at = at
            self._show_row()
            self.query_one("#row", ScrollPane).scroll_home(animate=False)

    def say(self, text: str) -> None:
        """Show what is being done now, or where the data stands."""
        self._busy = text
        name = plain_line(dataset_name(self.values) or "no data")
        busy = Content.styled(f"  … {text}", "$secondary") if text else Content("")
        line = report_line(self.report) if self.report else Content("")
        self.query_one("#title", Note).update(Content.assemble((name, "bold $primary"), "  ", line, busy))

    def _show(self) -> None:
        if self.report is None:
            return
        parts = self.query_one("#parts", OptionList)
        at = parts.highlighted or 0
        parts.set_options(Option(Content(part_line(part))) for part in self.report.parts)
        parts.highlighted = min(at, len(self.report.parts) - 1) if self.report.parts else None
        parts.display = bool(self.report.parts)
        self._show_row()
        self._show_sums()

    def _show_row(self) -> None:
        pane = self.query_one("#row", ScrollPane)
        if self.report is None:
            return
        pane.entitle(*row_title(self.report, self.at, self._mode))
        width = max(20, pane.scrollable_content_region.width)
        self.query_one("#row-text", Note).update(row_content(self.report, self.at, self._mode, width))

    def _show_sums(self) -> None:
        if self.report is None:
            return
        self.say(self._busy)
        sums, chart = self.report.totals, self.query_one("#histogram", Lines)
        self.query_one("#lengths", Pane).entitle("Tokens of a sequence", f"{sums.sequences:,}")
        chart.show_lines(histogram_content(sums, chart.content_size.width))
        self.query_one("#totals", Pane).entitle("Together")
        shown = [Content.assemble((f"{name:<9} ", "$secondary"), value) for name, value in total_lines(self.report)]
        self.query_one("#totals-text", Note).update(Content("\n").join(shown))
