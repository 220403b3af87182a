"""Plain lines for terminals, pipes and logs: tables of records, no colour, no control sequences."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence
from datetime import datetime
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from kerneltui.advice.assessment import WillRun
from kerneltui.advice.finding import SIGNS, Severity
from kerneltui.advice.memory.fits import Memory
from kerneltui.advice.memory.room import gib
from kerneltui.fetch import Fetched, gigabytes
from kerneltui.runs.directory import PHASE_SIGNS
from kerneltui.runs.find import Elsewhere
from kerneltui.runs.view_record import RunView
from kerneltui.text import cut_middle, plain_line


def table_lines(
    headings: Sequence[str], rows: Sequence[Sequence[str | None]], *, right: str = "", width: int | None = None
) -> list[str]:
    """Return aligned lines for a table; a None is shown as a dash. `right` names right-aligned headings, by spaces.

    Lines are cut at `width` cells (None: the terminal's). Wide characters (Chinese, emoji) keep the columns aligned.
    Text is made plain.
    """
    table = Table(box=None, pad_edge=False, show_header=any(headings), header_style="")
    for heading in headings:
        table.add_column(heading, justify="right" if heading and heading in right.split() else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(Text("–" if cell is None else plain_line(cell)) for cell in row))
    output = StringIO()
    Console(file=output, width=max(60, width or terminal_width()), color_system=None).print(table)
    return [line.rstrip() for line in output.getvalue().splitlines()]


def terminal_width(otherwise: int = 200) -> int:
    """Return the terminal's columns; `otherwise` where there is none, as in a file or a pipe."""
    return shutil.get_terminal_size((otherwise, 24)).columns


# From how many columns on a column of the list of runs is shown: name, state and step always are.
RUN_COLUMNS = {
    "": 0, "state": 0, "run": 0, "trainer": 100, "model": 110, "attention": 80, "step": 0, "loss": 0, "steps/s": 90,
    "GPU h": 130, "age": 0,
}  # fmt: skip


def run_lines(views: Sequence[RunView], directory: Path) -> list[str]:
    """Return the list of runs, each with its state; failed ones with their reason."""
    if not views:
        return [f"No runs in {directory}. `kerneltui demo` makes one; `kerneltui launch` starts your own."]
    width = terminal_width()
    kept = [number for number, least in enumerate(RUN_COLUMNS.values()) if width >= least]
    rows = [[row[number] for number in kept] for row in map(run_row, views)]
    headings = [list(RUN_COLUMNS)[number] for number in kept]
    lines = table_lines(headings, rows, right="step loss steps/s")
    notes = [f"{SIGNS[kind]} {view.name}: {text}" for view in views for kind, text in run_notes(view)]
    return [*lines, *([""] if notes else []), *(line for text in notes for line in _wrapped(text, "  "))]


def elsewhere_lines(places: Sequence[Elsewhere]) -> list[str]:
    """Return where else there are runs, one line a place; nothing where there are none."""
    lines = []
    for place in places:
        count = f"{place.runs} run{'s' if place.runs > 1 else ''}" + (f" ({place.live} live)" if place.live else "")
        lines.append(f"{count} in {plain_line(place.directory)}")
    return ["", "Elsewhere, found by name from here too:", *(f"  {line}" for line in lines)] if lines else []


def _wrapped(text: str, indent: str) -> list[str]:
    """Return text on lines that fit the terminal; those after the first are indented."""
    return textwrap.wrap(
        text, max(40, min(terminal_width(), 110)), subsequent_indent=indent, break_long_words=False
    ) or [text]


def run_notes(view: RunView) -> list[tuple[Severity, str]]:
    """Return what a person should know of a run beside its row, by severity: why it ended, alerts, where it is."""
    notes: list[tuple[Severity, str]] = []
    if view.problem or (view.phase in ("failed", "killed", "lost") and view.reason):
        notes.append(("block", plain_line(view.problem or view.reason or "")))
    if view.way_out:
        notes.append(("note", plain_line(view.way_out)))
    if view.alert:
        notes.append(("warn", plain_line(view.alert)))
    if view.remark:
        notes.append(("note", plain_line(view.remark)))
    if view.host and not view.silent_since:
        notes.append(("note", plain_line(f"it runs on {view.host}")))
    return notes


def run_row(view: RunView) -> tuple[str | None, ...]:
    """Return the cells of a run, one for each of `RUN_COLUMNS`."""
    step = None if view.step is None else f"{view.step}/{view.total}" if view.total else str(view.step)
    watched = view.phase in ("starting", "running") and view.alert
    return (
        "▲" if watched else PHASE_SIGNS.get(view.phase or "", "✖"),
        view.phase or "unreadable",
        " ".join((view.name, *(f"#{tag}" for tag in view.tags))),
        view.trainer,
        view.model and cut_middle(view.model, 24),
        view.attention and cut_middle(view.attention, 28),
        step,
        None if view.loss is None else f"{view.loss:.4g}",
        None if view.speed is None else f"{view.speed:.3g}",
        None if view.gpu_hours is None else f"{view.gpu_hours:.2f}",
        None if view.started is None else age(view.started),
    )


def age(time: str, *, now: datetime | None = None) -> str:
    """Return how long ago an ISO 8601 `time` was, in its largest unit: "41 s", "4 m", "2 h", "3 d"."""
    seconds = max(0.0, ((now or datetime.now().astimezone()) - datetime.fromisoformat(time)).total_seconds())
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds)} s"


def will_run_lines(will_run: WillRun) -> list[str]:
    """Return what a launch would start: trainer, model, attention with commit and variant, dtype."""
    attention = will_run.attention
    asked = f"  (asked: {attention.asked})" if attention.asked not in (None, attention.implementation) else ""
    lines = [
        f"Will run: trl {will_run.trainer} on {will_run.model or 'no model'}",
        f"  attention  {attention.implementation}{asked}",
    ]
    if attention.commit:
        lines.append(
            f"             revision {attention.revision}  commit {attention.commit[:8]}"
            f"  build {attention.variant or 'none fits'}"
        )
    lines.append(f"  weights    {will_run.dtype}")
    lines += memory_lines(will_run.memory) if will_run.memory else []
    versions = ("trl", "transformers", "kernels", "torch")
    found = [f"{name} {will_run.packages[name]}" for name in versions if name in will_run.packages]
    lines.append("  packages   " + "  ".join(found))
    return [_plain_indented(line) for line in lines]


def memory_lines(memory: Memory) -> list[str]:
    """Return what a plan takes of each card, of what parts that is, and how much more would fit."""
    found = memory.estimate
    free = "" if memory.free is None else f" of {gib(memory.free)} GiB free"
    takes = f"{gib(found.peak)} GiB, as measured" if found.measured else f"{gib(found.low)} to {gib(found.high)} GiB"
    parts = "  ".join(f"{part.name} {gib(part.size)}" for part in sorted(found.parts, key=lambda part: -part.size))
    lines = [f"  memory     {takes}{free}, highest in {found.at}", f"             {parts}"]
    if memory.largest_batch and memory.longest:
        lines.append(
            f"             fits up to batch {memory.largest_batch}, or rows of {number(memory.longest)} tokens"
        )
    return lines


def memory_table(memory: Memory) -> list[str]:
    """Return the parts of what a plan takes as a table in GiB, beside what the card has."""
    found = memory.estimate
    rows: list[tuple[str | None, str | None, str | None]] = [
        (part.name, gib(part.size), part.how) for part in sorted(found.parts, key=lambda part: -part.size)
    ]
    sure = "measured" if found.measured else "estimated"
    rows += [
        (f"highest, {sure}", gib(found.peak), found.at),
        ("on the card", f"{gib(found.low)}–{gib(found.high)}", "with CUDA's own share and the allocator's gaps"),
        ("free now", None if memory.free is None else gib(memory.free), _of_total(memory)),
    ]
    if memory.largest_batch is not None and memory.longest is not None:
        rows.append(("largest batch", str(memory.largest_batch), "rows at once, at this length"))
        rows.append(("longest row", number(memory.longest), "tokens, at this batch"))
    return [*table_lines(("of each card", "GiB", ""), rows, right="GiB"), *(f"· {it}" for it in found.assumptions)]


def _of_total(memory: Memory) -> str:
    return "" if memory.total is None else f"of {gib(memory.total)}"


def _plain_indented(line: str) -> str:
    indent = len(line) - len(line.lstrip(" "))
    return " " * indent + plain_line(line)


def fetched_lines(fetched: Fetched) -> list[str]:
    """Return one line for each thing that is in the cache now, and how to start without a network."""
    if not fetched.parts:
        return ["Nothing to fetch: all that this run needs is on this disk."]
    rows = [
        (
            "✔",
            part.kind,
            f"{part.name}@{part.revision}" if part.revision else part.name,
            part.commit[:8] if part.commit else "",
            gigabytes(part.size) if part.size else "was there" if part.size == 0 else "",
        )
        for part in fetched.parts
    ]
    return [*table_lines(("", "", "", "", ""), rows), "It starts without a network now: HF_HUB_OFFLINE=1"]


def number(value: int | None) -> str | None:
    """Return a count with its digits in groups of three, None for None."""
    return None if value is None else f"{value:,}".replace(",", " ")
