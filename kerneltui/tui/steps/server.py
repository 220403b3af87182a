"""Step 1: the server, and the GPUs to use."""

from __future__ import annotations

from typing import Any

from rich.text import Text
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import DataTable

from kerneltui.advice.recommend import Recommendation, recommend_gpus
from kerneltui.facts.server import Gpu, Server
from kerneltui.text import plain_line
from kerneltui.tui.keys import SERVER_STEP, bindings
from kerneltui.tui.steps.step import Step, WizardState
from kerneltui.tui.widgets.lines import Note
from kerneltui.tui.widgets.tables import show_rows

_HEADINGS = ("use", "GPU", "name", "memory GiB", "use %", "°C", "others")


class ServerStep(Step):
    """The GPUs with what others do on them; space chooses, Enter takes the choice."""

    NAME = "Server"
    ENTER = "Go on"
    PURPOSE = "Choose the GPUs to train on with space. The list shows who uses them now; findings name what is wrong."
    KEYS = SERVER_STEP
    BINDINGS = bindings(SERVER_STEP)

    def __init__(self) -> None:
        super().__init__(id="step-server")
        self._server: Server | None = None
        self._chosen: set[int] | None = None
        self._recommended: Recommendation | None = None

    def compose(self) -> ComposeResult:
        """Lay out the table over the facts in words."""
        yield Note("reading the server …", id="server-state")
        table: DataTable[Any] = DataTable(id="gpus", cursor_type="row")
        table.display = False
        yield table
        yield Note("", id="server-why", classes="why")
        yield Note("", id="server-facts")

    def open(self) -> None:
        """Focus the table; without one Enter is the screen's own."""
        self.focus_if_shown("#gpus")

    def show(self, state: WizardState) -> None:
        """Show the GPUs and the software."""
        if state.server is None:
            self.query_one("#server-state", Note).update(
                Content(f"{state.busy or state.error or 'reading the server'}")
            )
            return
        self._server = server = state.server
        self._recommended = recommend_gpus(server)
        if self._chosen is None:
            chosen = state.plan.launch.gpus
            self._chosen = set(self._recommended.gpus or () if chosen is None else chosen)
        table = self.query_one("#gpus", DataTable)
        if table.display != bool(server.gpus):
            table.display = bool(server.gpus)
            self.call_after_refresh(self.open)
        self.query_one("#server-state").display = not server.gpus
        if not server.gpus:
            reason = plain_line(server.unavailable.get("gpus", "none was found"))
            self.query_one("#server-state", Note).update(Content(f"No GPU: {reason}"))
        show_rows(
            table, _HEADINGS, {str(gpu.nvml_index): self._row(gpu) for gpu in server.gpus},
            right=("memory GiB", "use %", "°C"),
        )  # fmt: skip
        self.query_one("#server-why", Note).update(Content(self._recommended.why))
        self.query_one("#server-facts", Note).update(_facts(server))

    def action_choose(self) -> None:
        """Choose the GPU under the cursor, or not."""
        table = self.query_one("#gpus", DataTable)
        if not self._server or not table.display or self._chosen is None:
            return
        index = self._server.gpus[table.cursor_row].index
        if index is not None:
            self._chosen ^= {index}
            rows = {str(gpu.nvml_index): self._row(gpu) for gpu in self._server.gpus}
            show_rows(table, _HEADINGS, rows, right=("memory GiB", "use %", "°C"))

    def on_data_table_row_selected(self) -> None:
        """Enter takes the choice."""
        self.take()

    def take(self) -> None:
        """Use the chosen GPUs, or the CPU where there is none."""
        if self._server is None:
            return
        gpus = tuple(sorted(self._chosen or ()))
        values = {} if gpus else dict(self._recommended.values if self._recommended else {})
        remove = ("use_cpu",) if gpus else ()
        self.post_message(self.Chosen(values=values, remove=remove, launch={"gpus": gpus or None}))

    def _row(self, gpu: Gpu) -> tuple[str | Text | None, ...]:
        chosen = gpu.index in (self._chosen or ())
        used = None if gpu.memory_used is None else f"{gpu.memory_used / 2**30:.0f}"
        total = None if gpu.memory_total is None else f"{gpu.memory_total / 2**30:.0f}"
        others = ", ".join(it.user or f"pid {it.pid}" for it in gpu.processes or ())
        return (
            Text("✔" if chosen else "·", style="bold" if chosen else ""),
            None if gpu.index is None else str(gpu.index),
            gpu.name,
            None if used is None or total is None else f"{used} / {total}",
            None if gpu.utilization is None else str(gpu.utilization),
            None if gpu.temperature is None else str(gpu.temperature),
            others or "nobody",
        )


def _facts(server: Server) -> Content:
    names = ("trl", "transformers", "kernels", "liger-kernel", "accelerate", "peft")
    versions = [f"{name} {server.packages[name].version}" for name in names if name in server.packages]
    torch = f"torch {server.torch.version}" if server.torch else f"no torch: {server.unavailable.get('torch', '')}"
    driver = f"driver {server.driver} (CUDA {server.driver_cuda})" if server.driver else "no NVIDIA driver"
    lines = [f"{driver} · {torch} · Python {server.python}", " · ".join(versions)]
    return Content("\n").join(Content.styled(plain_line(line), "$secondary") for line in lines)
