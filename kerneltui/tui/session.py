"""What the screens share: the training interpreter's asker, the Hub, the server report. All methods block."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import TypedDict

from kerneltui.errors import KerneltuiError
from kerneltui.facts.dataset import dataset_name
from kerneltui.facts.hub import Hub
from kerneltui.facts.read_server import ServerCallback, read_server, reread_server
from kerneltui.facts.server import Server
from kerneltui.interpreter import Asker, ProgressCallback
from kerneltui.paths import hub_answers
from kerneltui.plan.plan import parse_config
from kerneltui.runs.find import list_runs

# How many of the newest runs are looked at for what was used last.
_RECENT = 10


class _Callbacks(TypedDict):
    on_progress: ProgressCallback
    on_part: ServerCallback


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
        self.hub = Hub(endpoint, folder=hub_answers())
        self.asker = Asker(python)
        self._server: Server | None = recorded
        self._part: Server | None = recorded
        self._listeners: list[tuple[ProgressCallback | None, ServerCallback | None]] = []
        self._lock = threading.Lock()

    def server(
        self,
        *,
        again: bool = False,
        on_progress: ProgressCallback | None = None,
        on_part: ServerCallback | None = None,
    ) -> Server:
        """Return the server report, read once and kept; `again` reads it anew. Raises WorkerError.

        `on_part` gets it as far as it is known, also where another thread reads it already.
        """
        listener = (on_progress, on_part)
        if on_part and self._part is not None:
            on_part(self._part)
        self._listeners.append(listener)
        try:
            with self._lock:
                if self._server is None:
                    self._server = read_server(self.python, runs_dir=self.runs, **self._callbacks())
                elif again and self.recorded is None:
                    self._server = reread_server(self._server, runs_dir=self.runs, **self._callbacks())
                return self._server
        finally:
            self._listeners.remove(listener)

    def _callbacks(self) -> _Callbacks:
        def tell(text: str) -> None:
            for on_progress, _ in list(self._listeners):
                if on_progress:
                    on_progress(text)

        def take(server: Server) -> None:
            self._part = server
            for _, on_part in list(self._listeners):
                if on_part:
                    on_part(server)

        return {"on_progress": tell, "on_part": take}

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
