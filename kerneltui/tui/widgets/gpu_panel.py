"""The GPUs of a run: in full, one a line, or all in one line, as there is room; then host and disk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.content import Content
from textual.reactive import var
from textual.widget import Widget

from kerneltui.tui.widgets.lines import Lines
from kerneltui.tui.widgets.pane import Pane
from kerneltui.tui.widgets.sparkline import sparkline
from kerneltui.tui.widgets.words import gib

if TYPE_CHECKING:
    from kerneltui.runs.live_view import LiveView
    from kerneltui.runs.samples import GpuView, History, HostView, MachineView

# Lines that what stands in the same column needs at least, and cells of a value with its unit.
_BESIDE, _VALUE = 3, 12
# From so many cells on a line has room for three curves.
_WIDE = 90
# Why clocks may be lowered without anything being wrong: the card works at its power limit, or was set so.
_HARMLESS = ("power cap", "application clocks are set", "sync boost", "display clock")
# Below so much free disk the next checkpoint may not fit, and so much of the host's memory is nearly all. Bytes, part.
_DISK_LOW = 5 << 30
_MEMORY_HIGH = 0.95


class GpuPanel(Pane, Lines):
    """Use, memory, power and temperature of each GPU with their last minutes, and why clocks are lowered."""

    DEFAULT_CSS = "GpuPanel { height: auto; }"

    view: var[LiveView | MachineView | None] = var(None)

    def __init__(self, *, id: str, more: str = "") -> None:
        """`more` is what follows where lines are left out, such as the key that enlarges the panel."""
        super().__init__(id=id)
        self._more = more

    def watch_view(self) -> None:
        """Show a newer view, where it differs."""
        self._compose_lines()

    def on_resize(self) -> None:
        """Fit the lines to the new width."""
        self._compose_lines()

    def _compose_lines(self) -> None:
        view, width = self.view, self.content_size.width
        if view is None or not width:
            return
        room = self._room()
        lines = panel_lines(view.gpus, view.machine, width, in_full=True)
        if len(lines) > room and len(view.gpus) > 1:
            lines = panel_lines(view.gpus, view.machine, width, in_full=False)
        if len(lines) > room:
            lines = [
                *lines[: room - 1],
                Content.styled(f"… {len(lines) - room + 1} more lines{self._more}", "$secondary"),
            ]
        if len(view.gpus) == 1:
            self.entitle(_title(view.gpus[0]), view.gpus[0].name)
        else:
            self.entitle("GPUs" if view.gpus else "Host", str(len(view.gpus)) if view.gpus else "no GPU")
        self.show_lines(lines)

    def _room(self) -> int:
        """Return how many lines there are for the panel, when others beside it need but a few."""
        beside = sum(_BESIDE for other in self.siblings if other.display)
        column = self.parent
        return max(1, column.size.height - beside - 2) if isinstance(column, Widget) else 1


class GpuLine(Lines):
    """All GPUs in one line, for narrow terminals."""

    DEFAULT_CSS = "GpuLine { height: 1; padding: 0 1; }"

    view: var[LiveView | None] = var(None)

    def watch_view(self, view: LiveView | None) -> None:
        """Show a newer view, where it differs."""
        if view is not None:
            self.show_lines([gpu_line(view.gpus, view.machine)])


def panel_lines(gpus: Sequence[GpuView], host: HostView, width: int, *, in_full: bool) -> list[Content]:
    """Return the lines of the panel, `in_full` with a line for each value of a GPU, else a line a GPU."""
    lines: list[Content] = []
    for gpu in gpus:
        if in_full:
            heading = [Content.styled(f"{_title(gpu)}  {gpu.name}", "bold")] if len(gpus) > 1 else []
            lines += [*heading, *_full(gpu, width), Content("")]
        else:
            lines.append(_wide(gpu, width) if width >= _WIDE else _brief(gpu, width))
    if gpus and not in_full:
        lines.append(Content(""))
    return [*lines, *_host_lines(host)]


def gpu_line(gpus: Sequence[GpuView], host: HostView) -> Content:
    """Return all GPUs in one line: each value, or its range where there are several."""
    if not gpus:
        words = [" ".join(line.plain.split()) for line in _host_lines(host)]
        return Content.assemble(("no GPU ", "bold"), " ", " · ".join(words))
    name = f"{_title(gpus[0])} {gpus[0].name}" if len(gpus) == 1 else f"{len(gpus)} × {gpus[0].name}"
    total = gpus[0].memory_total
    parts = [
        f"use {_range([gpu.use for gpu in gpus])} %",
        f"memory {_range([gpu.memory for gpu in gpus], gib)}{f'/{gib(total)}' if total else ''} GiB",
        f"{_range([gpu.power for gpu in gpus], lambda value: f'{value:.0f}')} W",
        f"{_range([gpu.temperature for gpu in gpus])} °C",
    ]
    return Content.assemble((name, "bold"), "  ", "  ".join(parts), "  ", _throttle(gpus))


def _wide(gpu: GpuView, width: int) -> Content:
    """Return a GPU in one line with the curves of its use, memory and power."""
    if gpu.unavailable.get("gpu"):
        return _brief(gpu, width)
    words = f"{_value(gpu.temperature, ' °C'):>6}  "
    throttle = _throttle([gpu])
    fixed = 3 + len(words) + max(throttle.cell_length, 15) + sum(len(row[0]) + _VALUE + 3 for row in _rows(gpu)[:3])
    room = max(0, (width - fixed) // 3)
    parts = [(f"{_number(gpu):>2} ", "$secondary")]
    for label, history, top, value in _rows(gpu)[:3]:
        curve = sparkline(history, top, room)
        parts += [(f" {label} ", "$secondary"), (curve, "$primary 70%"), (f" {value:<{_VALUE}}", "")]
    return Content.assemble(*parts, words, throttle)


def _full(gpu: GpuView, width: int) -> list[Content]:
    if reason := gpu.unavailable.get("gpu"):
        return [Content.assemble(("✖ ", "$error"), f"not available: {reason}")]
    rows = _rows(gpu)
    room = max(len(row[3]) for row in rows)
    lines = [
        Content.assemble(
            (f"{label:<7}", "$secondary"), (sparkline(history, top, max(0, width - 9 - room)), "$primary 70%"),
            f"  {value:>{room}}",
        )
        for label, history, top, value in rows
    ]  # fmt: skip
    label = "" if gpu.throttle else f"{'clocks':<7}"
    return lines + [Content.assemble((label, "$secondary"), reason) for reason in _throttle_lines([gpu])]


def _rows(gpu: GpuView) -> list[tuple[str, History, float | None, str]]:
    """Return for each value of a GPU its label, its history, what counts as full, and its words."""
    limit = gpu.power_limit or max((value for value in gpu.power_history if value), default=0.0)
    memory = f"{gib(gpu.memory)}/{gib(gpu.memory_total)} GiB" if gpu.memory_total else f"{gib(gpu.memory)} GiB"
    power = "–" if gpu.power is None else f"{gpu.power:.0f}{f'/{gpu.power_limit:.0f}' if gpu.power_limit else ''} W"
    return [
        ("use", gpu.use_history, 100.0, _value(gpu.use, " %")),
        ("memory", gpu.memory_history, gpu.memory_total, memory),
        ("power", gpu.power_history, limit, power),
        ("temp", gpu.temperature_history, 100.0, _value(gpu.temperature, " °C")),
    ]


def _brief(gpu: GpuView, width: int) -> Content:
    if reason := gpu.unavailable.get("gpu"):
        return Content.assemble(f"{_number(gpu)} ", ("✖ ", "$error"), f"not available: {reason}")
    power, temperature = _value(gpu.power, " W"), _value(gpu.temperature, "°")
    values = f"{_value(gpu.use, ' %'):>6} {gib(gpu.memory):>4} GiB {power:>6} {temperature:>4}"
    room = max(0, width - len(values) - 6)
    return Content.assemble(
        (f"{_number(gpu):>2} ", "$secondary"), (sparkline(gpu.use_history, 100, room), "$primary 70%"), values, " ",
        ("▲", "$warning") if _alarming(gpu) else " ",
    )  # fmt: skip


def _host_lines(host: HostView) -> list[Content]:
    lines = []
    if host.memory_total:
        full = (host.memory_used or 0) > _MEMORY_HIGH * host.memory_total
        text = f"{gib(host.memory_used)}/{gib(host.memory_total)} GiB"
        lines.append(_signed("memory", text, "nearly full" if full else None))
    if host.disk_free is not None:
        low = host.disk_free < _DISK_LOW
        lines.append(_signed("disk", f"{gib(host.disk_free)} GiB free", "low" if low else None))
    return lines


def _signed(label: str, text: str, warning: str | None) -> Content:
    note = (f"▲ {warning} ", "$warning") if warning else ""
    return Content.assemble((f"{label:<7}", "$secondary"), note, text)


def _throttle(gpus: Sequence[GpuView]) -> Content:
    return Content(" ").join(_throttle_lines(gpus))


def _throttle_lines(gpus: Sequence[GpuView]) -> list[Content]:
    """Return why clocks are lowered, those reasons first that are a warning."""
    words = dict.fromkeys(word for gpu in gpus for word in gpu.throttle or ())
    if not words:
        told = any(gpu.throttle is not None for gpu in gpus)
        return [Content.styled("no throttling" if told else "· throttling not told", "$secondary")]
    signs = {True: ("· ", "$secondary"), False: ("▲ ", "$warning")}
    return [Content.assemble(signs[word in _HARMLESS], word) for word in sorted(words, key=_HARMLESS.__contains__)]


def _alarming(gpu: GpuView) -> bool:
    return any(word not in _HARMLESS for word in gpu.throttle or ())


def _title(gpu: GpuView) -> str:
    return f"GPU {_number(gpu)}"


def _number(gpu: GpuView) -> str:
    return "–" if gpu.index is None else str(gpu.index)


def _value(value: float | None, unit: str) -> str:
    return "–" if value is None else f"{value:.0f}{unit}"


def _range(values: Sequence[float | None], word: object = str) -> str:
    known = [value for value in values if value is not None]
    if not known or not callable(word):
        return "–"
    low, high = word(min(known)), word(max(known))
    return str(low) if low == high else f"{low}–{high}"
