"""The head of the live pane: what runs, how far it is, how it goes; and below it what a person must know or do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content
from textual.reactive import var

from kerneltui.runs.directory import PHASE_SIGNS
from kerneltui.text import cut_middle, duration, plain_line
from kerneltui.tui.widgets.lines import Lines
from kerneltui.tui.widgets.words import short, thousands

if TYPE_CHECKING:
    from kerneltui.runs.live_view import AttentionView, LiveView

_COMMON = "kernels-community/"
_COLOURS = {"…": "$secondary", "●": "$primary", "✔": "$success", "✖": "$error"}


class RunHeader(Lines):
    """Three lines: name, trainer, model and attention; steps, bar and time; speed and checkpoints."""

    DEFAULT_CSS = "RunHeader { height: 3; padding: 0 1; }"

    view: var[LiveView | None] = var(None)

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
        self.show_lines((identity(view, width), progress(view, width), pace(view, width)))


def phase_sign(phase: str | None) -> tuple[str, str]:
    """Return the sign of a phase (None: the run cannot be read) and its colour."""
    sign = PHASE_SIGNS.get(phase or "", PHASE_SIGNS["failed"])
    return sign, _COLOURS[sign]


def identity(view: LiveView, width: int) -> Content:
    """Return what runs: state, name, trainer, model, attention."""
    sign, colour = phase_sign(view.phase)
    state = Content.assemble((f"{sign} ", colour), view.phase or "unreadable")
    attention = _attention(view.attention)
    parts = [view.trainer, _last_part(view.model)]
    told = " · ".join(part for part in parts if part)
    room = width - state.cell_length - 2
    name = cut_middle(plain_line(view.name), max(8, room // 3))
    left = Content.styled(name, "bold")
    for more, style in ((told, ""), (attention.plain, None)):
        space = room - left.cell_length - 2
        if not more or space < 8:
            continue
        piece = attention if style is None and attention.cell_length <= space else Content(cut_middle(more, space))
        left = Content("  " if style == "" else " · ").join([left, piece])
    gap = max(1, width - left.cell_length - state.cell_length)
    return Content.assemble(left, " " * gap, state)


def progress(view: LiveView, width: int) -> Content:
    """Return how far it is: step and total, a bar, the part done, the time left or taken."""
    if view.problem:
        return Content("")
    if view.step is None:
        return Content.styled("no step yet", "$secondary")
    step = f"step {view.step} / {view.total}" if view.total else f"step {view.step}"
    part = min(1.0, view.step / view.total) if view.total else None
    tail = "".join([f"  {100 * part:.0f} %" if part is not None else "", _time(view)])
    room = width - len(step) - len(tail) - 2
    if part is None or room < 5:
        return Content(step + tail)
    full = round(room * part)
    _, colour = phase_sign(view.phase)
    return Content.assemble(f"{step}  ", ("━" * full, colour), ("─" * (room - full), "$border"), tail)


def pace(view: LiveView, width: int) -> Content:
    """Return how it goes: steps and tokens a second, epoch, checkpoints; as much as there is room for."""
    parts = [
        _speed(view.seconds_per_step) if view.active else _average(view),
        f"{thousands(view.tokens_per_second)} tokens/s" if view.tokens_per_second else None,
        _next_checkpoint(view),
        f"last checkpoint at {view.last_checkpoint.step}" if view.last_checkpoint else None,
        f"epoch {short(view.epoch)}" if view.epoch is not None else None,
        f"attempt {view.attempt}" if view.attempt > 1 else None,
        _kernel(view.attention),
    ]
    text = ""
    for part in parts:
        longer = " · ".join(filter(None, [text, part]))
        if part and len(longer) <= width:
            text = longer
    return Content.styled(text, "$foreground 70%")


def _time(view: LiveView) -> str:
    if view.active:
        return "" if view.seconds_left is None else f"  {duration(view.seconds_left)} left"
    if view.started and view.ended:
        return f"  took {duration((view.ended - view.started).total_seconds())}"
    return ""


def _attention(attention: AttentionView) -> Content:
    """Return the attention in use with its sign, before training the one that was promised."""
    name = short_attention(attention)
    if attention.used is None:
        return Content(name)
    if not attention.alerts:
        return Content.assemble(f"{name} ", ("✔", "$success"), " in use")
    blocks = any(alert.severity == "block" for alert in attention.alerts)
    return Content.assemble(f"{name} ", ("✖", "$error") if blocks else ("▲", "$warning"), " differs")


def short_attention(attention: AttentionView) -> str:
    """Return the name of the attention with its revision, without the publisher that most kernels have."""
    name = attention.used or attention.promised or "no attention named"
    loaded = next((kernel for kernel in attention.kernels if name.partition("@")[0] == kernel.repository), None)
    if loaded and loaded.revision and "@" not in name:
        name = f"{name}@{loaded.revision}"
    return name.removeprefix(_COMMON)


def _kernel(attention: AttentionView) -> str | None:
    found = [
        f"{kernel.repository.rpartition('/')[2]} {kernel.commit[:8]}" for kernel in attention.kernels if kernel.commit
    ]
    return f"loaded {', '.join(found)}" if found else None


def _speed(seconds: float | None) -> str | None:
    if not seconds:
        return None
    return f"{short(seconds)} s/step" if seconds >= 1 else f"{1 / seconds:.3g} steps/s"


def _average(view: LiveView) -> str | None:
    rate = view.summary.get("train_steps_per_second")
    return f"{rate:.3g} steps/s on average" if rate else None


def _next_checkpoint(view: LiveView) -> str | None:
    if view.next_checkpoint is None:
        return None
    seconds = view.seconds_to_checkpoint
    return f"checkpoint in {view.next_checkpoint} steps" + (f", {duration(seconds)}" if seconds is not None else "")


def _last_part(model: str | None) -> str | None:
    return model.rstrip("/").rpartition("/")[2] if model else None
