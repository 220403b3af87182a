"""What the screens share: the training interpreter's asker, the Hub, the server report. All methods block."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

from kerneltui.errors import KerneltuiError
from kerneltui.facts.dataset import dataset_name
from kerneltui.facts.hub import Hub
from kerneltui.facts.read_server import read_server
from kerneltui.facts.server import Server
from kerneltui.interpreter import Asker, ProgressCallback
from kerneltui.plan.plan import parse_config
from kerneltui.runs.find import list_runs

# How many of the newest runs are looked at for what was used last.
_RECENT = 10


class Session:
    """Lives as long as the app. Safe to use from several threads; `close` ends the asker.

    `recorded` is a server report of another machine, None for this one; `endpoint` another Hub than huggingface_hub's.
    """

    def __init__(
        self, python: Path, runs: Path, *, recorded: Server | None = None, endpoint: str | None = None
    ) -> None:
        self.python = python
        self.runs = runs
        self.recorded = recorded
        self.hub = Hub(endpoint)
        self.asker = Asker(python)
        self._server: Server | None = recorded
        self._lock = threading.Lock()

    def server(self, *, again: bool = False, on_progress: ProgressCallback | None = None) -> Server:
        """Return the server report, read once and kept; `again` reads it anew. Raises WorkerError."""
        with self._lock:
            if self.recorded is not None:
                return self.recorded
            if self._server is None or again:
                self._server = read_server(self.python, on_progress=on_progress, runs_dir=self.runs)
            return self._server

    def recent(self) -> tuple[list[str], list[str]]:
        """Return the models and the data of the newest runs, newest first, each once."""
        models: dict[str, None] = {}
        data: dict[str, None] = {}
        for run in list_runs(self.runs)[:_RECENT]:
            with contextlib.suppress(KerneltuiError):
                values = parse_config(run.read_run().plan.config or "{}", run.name)
                if values.get("model_name_or_path"):
                    models.setdefault(str(values["model_name_or_path"]))
                if name := dataset_name(values):
                    data.setdefault(name)
        return list(models), list(data)

    def close(self) -> None:
        """End the asker."""
        self.asker.close()
