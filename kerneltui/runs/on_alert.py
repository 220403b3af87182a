"""The person's command that is run at an alert (`launch --on-alert CMD`): a mail, a message, a pager."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading

from kerneltui.records import to_json
from kerneltui.runs.alert import Alert
from kerneltui.runs.directory import RunDirectory
from kerneltui.runs.handover import HANDED
from kerneltui.text import plain_line

# Seconds after which a command is ended.
_LIMIT = 60.0


class OnAlert:
    """Runs a command for each alert, beside everything else. None: no command.

    A shell runs it as the person wrote it. What comes from the run reaches it as variables (KERNELTUI_ALERT_RUN,
    _ID, _SEVERITY, _TEXT, _NEXT_STEP) and as JSON on standard input, never as a part of the command.
    """

    def __init__(self, command: str | None, run: RunDirectory) -> None:
        self._command = command
        self._run = run
        self._threads: list[threading.Thread] = []

    def tell(self, alert: Alert) -> None:
        """Start the command for an alert."""
        if self._command:
            thread = threading.Thread(target=self._tell, args=(self._command, alert), daemon=True)
            thread.start()
            self._threads.append(thread)

    def settle(self) -> None:
        """Return when all commands have ended, or had their time."""
        for thread in self._threads:
            thread.join(_LIMIT + 5)

    def _tell(self, command: str, alert: Alert) -> None:
        told = {"id": alert.id, "severity": alert.severity, "text": alert.text, "next_step": alert.next_step}
        variables = {f"KERNELTUI_ALERT_{name.upper()}": plain_line(value) for name, value in told.items()}
        environment = {name: value for name, value in os.environ.items() if name != HANDED}
        document = {"schema": 1, "run": self._run.name, "path": str(self._run.path), "alert": alert}
        try:
            process = subprocess.Popen(
                ["/bin/sh", "-c", command], stdin=subprocess.PIPE, start_new_session=True,
                env={**environment, **variables, "KERNELTUI_ALERT_RUN": str(self._run.path)},
            )  # fmt: skip
        except OSError as error:
            print(f"the command for alerts did not start: {error}", file=sys.stderr, flush=True)
            return
        try:
            process.communicate(to_json(document, indent=0), timeout=_LIMIT)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
