"""A benchmark as a picture and as tables: for the screen, the terminal, and files for other hands."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from kerneltui.bench.here import Beside
from kerneltui.bench.records import Benchmark, Comparison, Contender, Measured, Point
from kerneltui.bench.summary import Cell, Summary
from kerneltui.text import plain_line

_GIB = 1 << 30
_BAR = 30
_BLOCKS = " ▏▎▍▌▋▊▉█"
_FIRST = "★"
_NONE = "–"


def picture(benchmark: Benchmark, summary: Summary) -> RenderableType:
    """Return bars at the longest length that was measured, then step time and memory at each length."""
    parts: list[RenderableType] = [Text(title(benchmark), style="bold"), Text(_about(benchmark), style="dim")]
    if bars := list(_bars(summary)):
        parts += [Text(), *bars]
    if summary.cells:
        parts += [Text(), _table(summary, "step, ms", _time), Text()]
        if any(cell.peak for cell in summary.cells):
            parts += [_table(summary, "peak memory, GiB", _memory), Text()]
        parts += [Text(line, style="dim") for line in notes(benchmark, summary)]
    return Group(*parts)


def title(benchmark: Benchmark) -> str:
    """Return what was compared, on what, in one line."""
    return plain_line(f"{benchmark.comparison.plan.trainer} of {benchmark.model} on {benchmark.device}")


def _about(benchmark: Benchmark) -> str:
    packages = "  ".join(f"{name} {version}" for name, version in benchmark.packages.items())
    driver = f"driver {benchmark.driver}  " if benchmark.driver else ""
    return plain_line(f"{driver}{packages}  {benchmark.time[:10]}")


def notes(benchmark: Benchmark, summary: Summary) -> Iterator[str]:
    """Give what must be known to read the tables."""
    comparison = benchmark.comparison
    times = f" in {comparison.rounds} processes each" if comparison.rounds > 1 else ""
    yield f"Median of {comparison.steps} steps after {comparison.warmup}{times}; ± half of the 10th to 90th percentile."
    if any(cell.utilization for cell in summary.cells):
        yield "Per cent: the model's own arithmetic, beside what a large matrix product reaches on this card."
    if comparison.layers:
        yield f"Of the model's layers the first {comparison.layers} alone, not scaled to the whole."
    for cell in summary.cells:
        if cell.median is None or not cell.ranked:
            yield plain_line(f"✖ {cell.contender.label} at {cell.length}: {cell.reason}")
    if lowered := [cell for cell in summary.cells if cell.throttle]:
        reasons = sorted({reason for cell in lowered for reason in cell.throttle})
        everywhere = len(lowered) == sum(cell.median is not None for cell in summary.cells)
        where = "everywhere" if everywhere else ", ".join(f"{it.contender.label} at {it.length}" for it in lowered)
        yield plain_line(f"Clocks were lowered ({', '.join(reasons)}): {where}")
    for build in sorted({build for cell in summary.cells for build in cell.builds}):
        yield plain_line(f"Loaded: {build}")
    ready = {cell.contender.attention: cell.ready for cell in reversed(summary.cells) if cell.ready is not None}
    for name, seconds in ready.items():
        yield plain_line(f"Loading {name} took {seconds:.2f} s the first time.")


def _bars(summary: Summary) -> Iterator[Text]:
    """Give a bar a contender at the longest length at which at least one is ranked, fastest first."""
    length = max((cell.length for cell in summary.cells if cell.ranked), default=None)
    if length is None:
        return
    ranking = summary.ranking(length)
    longest = ranking[-1].median or 1
    width = max(len(plain_line(cell.contender.label)) for cell in ranking)
    yield Text(f"One step at {length} tokens", style="bold")
    for place, cell in enumerate(ranking):
        assert cell.median
        sign = _FIRST if place == 0 else " "
        line = Text(f"{sign} {plain_line(cell.contender.label):{width}}  ")
        line.append(_bar(cell.median / longest), style="green" if place == 0 else "blue")
        line.append(f" {_number(cell.median)} ms")
        line.append(f"  {cell.median / (ranking[0].median or 1):.2f}×", style="dim")
        if cell.utilization:
            line.append(f"  {cell.utilization:.0%}", style="dim")
        yield line


def _bar(share: float) -> str:
    eighths = round(share * _BAR * 8)
    return ("█" * (eighths // 8) + _BLOCKS[eighths % 8]).ljust(_BAR + 1)


def _table(summary: Summary, name: str, word: Callable[[Summary, Cell], str]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(name)
    for length in summary.lengths:
        table.add_column(str(length), justify="right")
    for contender in summary.contenders:
        words = [word(summary, cell) if (cell := summary.cell(contender, length)) else "" for length in summary.lengths]
        table.add_row(plain_line(contender.label), *words)
    return table


def _time(summary: Summary, cell: Cell) -> str:
    if cell.median is None:
        return "OOM" if cell.reason and cell.reason.startswith("out of memory") else "✖"
    first = f"{_FIRST} " if summary.first.get(cell.length) == cell.contender else ""
    wrong = "" if cell.ranked else "✖ "
    return f"{first}{wrong}{_number(cell.median)} ±{cell.spread or 0:.0%}"


def _memory(summary: Summary, cell: Cell) -> str:
    return _NONE if cell.peak is None else f"{cell.peak / _GIB:.1f}"


def _number(milliseconds: float) -> str:
    return f"{milliseconds:.0f}" if milliseconds >= 100 else f"{milliseconds:.1f}"


def to_csv(benchmark: Benchmark, summary: Summary) -> str:
    """Return a line a cell, with versions and commits in each."""
    file = io.StringIO()
    about = {"device": benchmark.device, "driver": benchmark.driver or "", **benchmark.packages}
    fields = [*_fields(None), *about]
    writer = csv.DictWriter(file, fields, lineterminator="\n")
    writer.writeheader()
    for cell in summary.cells:
        writer.writerow({**_fields(cell), **about})
    return file.getvalue()


def _fields(cell: Cell | None) -> dict[str, object]:
    it = cell or Cell(contender=Contender(attention=""), length=0)
    return {
        "attention": it.contender.attention,
        "layer_kernels": it.contender.layer_kernels,
        "packing": it.contender.packing,
        "length": it.length,
        "step_ms": it.median,
        "spread": it.spread,
        "peak_bytes": it.peak,
        "tokens_per_second": it.tokens,
        "utilization": it.utilization,
        "ready_seconds": it.ready,
        "loss": it.loss,
        "builds": " ".join(map(plain_line, it.builds)),
        "difference": it.difference,
        "ranked": it.ranked,
        "reason": it.reason,
    }


def to_markdown(benchmark: Benchmark, summary: Summary, command: str) -> str:
    """Return the tables, and under them what is needed to repeat them."""
    lines = [f"**{title(benchmark)}**", ""]
    tables = [("Step, ms", _time)] + [("Peak memory, GiB", _memory)] * any(cell.peak for cell in summary.cells)
    for name, word in tables:
        lines += [f"| {name} | {' | '.join(map(str, summary.lengths))} |", "|---" + "|--:" * len(summary.lengths) + "|"]
        for contender in summary.contenders:
            words = [word(summary, c) if (c := summary.cell(contender, n)) else "" for n in summary.lengths]
            lines.append(f"| {plain_line(contender.label)} | {' | '.join(words)} |")
        lines.append("")
    lines += [*notes(benchmark, summary), "", _about(benchmark), "", f"`{command}`", ""]
    return "\n".join(lines)


def to_svg(benchmark: Benchmark, summary: Summary, *, width: int = 110) -> str:
    """Return the picture as an SVG drawing."""
    console = Console(record=True, width=width, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(picture(benchmark, summary))
    return console.export_svg(title="kerneltui bench")


def beside_line(beside: Beside) -> str:
    """Return what was measured here of an attention, beside sdpa, in one line."""
    cell, reference = beside.cell, beside.reference
    plan, model = beside.benchmark.comparison.plan, beside.benchmark.model
    where = f"at {cell.length} tokens, in {plan.trainer} of {model}"
    if beside.share is None:
        return plain_line(f"Measured here: {cell.reason} {where}")
    if cell.contender == reference.contender:
        return plain_line(f"Measured here: {_number(cell.median or 0)} ms a step {where}")
    return plain_line(f"Measured here: {beside.share:.2f}× the step time of {reference.contender.label} {where}")


def describe(comparison: Comparison, measured: Mapping[Point, Measured]) -> str:
    """Return in one line how much there is to measure, and what of it is there already."""
    points = list(comparison.points())
    there = sum(point in measured for point in points)
    ways = f"{len(comparison.contenders)} ways to train at {len(comparison.lengths)} lengths"
    return f"{ways}: {len(points)} points" + (f", {there} of them measured before" if there else "")


def point_line(measured: Measured) -> str:
    """Return what came of a point, in one line."""
    point = measured.point
    what = f"{point.contender.label} at {point.length}"
    if measured.median is None:
        return plain_line(f"✖ {what}: {measured.ended.replace('_', ' ')}: {measured.ending or ''}".removesuffix(": "))
    peak = "" if measured.peak is None else f", {measured.peak / _GIB:.1f} GiB"
    return plain_line(f"✔ {what}: {_number(measured.median)} ms a step{peak}")
