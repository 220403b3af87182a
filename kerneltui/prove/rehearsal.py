"""The rehearsal: the training program of a real run, on small models of the same class and the first rows of the data.

The command is that of a run (`runs.launch.training_command`); what differs is in `rehearsal_plan`.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from kerneltui.advice.situation import Situation
from kerneltui.errors import KerneltuiError, WorkerAnswerError
from kerneltui.facts.proof import Rehearsal
from kerneltui.interpreter import Asker, ProgressCallback
from kerneltui.paths import write_atomically
from kerneltui.prove.card import no_room
from kerneltui.prove.rehearsal_plan import (
    Named,
    Source,
    Staged,
    changes_of,
    kept_flags,
    models_of,
    processes_of,
    rehearsed_config,
    rehearsed_flags,
    renumbered,
    sources_of,
    steps_of,
    untried,
)
from kerneltui.prove.rehearsal_result import Heard, judged
from kerneltui.runs.directory import Command, RunDirectory
from kerneltui.runs.journal import open_log
from kerneltui.runs.launch import make_kernel_loadable, training_command
from kerneltui.runs.processes import end_processes
from kerneltui.text import now

LIMIT = 300.0
"""Seconds that a rehearsal may take: importing TRL from a slow disk is most of it."""

# Bytes on the card: a CUDA context, a small model with its optimizer, and the logits of a batch.
_NEEDED = 4 << 30
# Seconds between looks at the training process, and those that ranks may take to end after their training has.
_TICK, _GRACE = 0.1, 5.0
# The variable that tells the launcher so (worker/launch.py).
_BOUND = "KERNELTUI_BOUND"
# What is not read for a look: it would be read as a whole.
_TOO_MUCH = ("TooLargeError", "NotImplementedError")
_NOT_IMPORTED = ("ModuleNotFoundError", "ImportError")


class Rehearsing:
    """One rehearsal. `cancel` may be called from any thread: `run` then ends its processes and raises."""

    def __init__(self, situation: Situation, python: Path, asker: Asker, *, limit: float = LIMIT) -> None:
        self.situation = situation
        self.python = python
        self._asker = asker
        self._deadline = time.monotonic() + limit
        self._limit = limit
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        """End it: at once while it trains, after the present question to the asker before that."""
        self._cancelled.set()

    def run(self, on_progress: ProgressCallback | None = None) -> Rehearsal:
        """Make the rehearsal and return what came of it; `on_progress` gets what is being done, in words.

        Raises KerneltuiError where it cannot be made: no small model, no way to the Hub, no room, another machine.
        """
        tell = on_progress or (lambda text: None)
        _check(self.situation)
        begun = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="kerneltui-rehearsal-", ignore_cleanup_errors=True) as folder:
            made = self._made(Path(folder), tell)
        return msgspec.structs.replace(made, time=now(), seconds=round(time.monotonic() - begun, 1))

    def _made(self, place: Path, tell: ProgressCallback) -> Rehearsal:
        situation = self.situation
        models, small = self._models(place, tell)
        staged = Staged(models, *self._data(place, tell))
        run = RunDirectory(place / "run")
        changes = {**changes_of(situation), **(renumbered(situation, small["layers"]) if small else {})}
        command = self._command(run, staged, changes)
        make_kernel_loadable(situation)
        tell("starting the trainer")
        heard = Heard(run, steps_of(situation), tell)
        code, hung = self._train(run, command, heard)
        if hung and staged.sources and staged.rows is None:
            why = f"Its first rows cannot be read alone, and all of them took {self._limit:.0f} s."
            raise KerneltuiError("No rehearsal of this data", why)
        return msgspec.structs.replace(
            judged(situation, run, heard, code, hung=self._limit if hung else None),
            model=_in_words(small) if small else None,
            changed=changes,
            untried=tuple(untried(situation)),
        )

    def _models(self, place: Path, tell: ProgressCallback) -> tuple[dict[str, str], dict[str, Any] | None]:
        """Return the small model of each field that names one, and what the trained one is."""
        made: dict[tuple[str, str | None], tuple[str, dict[str, Any]] | None] = {}
        found: dict[str, str] = {}
        for named in models_of(self.situation):
            key = named.path, named.revision
            if key not in made:
                tell(f"making a small {named.path}")
                made[key] = self._small(named, str(place / f"model-{len(made)}"))
            if small := made[key]:
                found[named.field] = small[0]
        trained = next((it for it in made.values() if it and it[0] == found.get("model_name_or_path")), None)
        return found, trained[1] if trained else None

    def _small(self, named: Named, folder: str) -> tuple[str, dict[str, Any]] | None:
        """Return the folder of a small model and what it is; None where its class cannot be imported.

        Then the trainer cannot import it either, and says so before it reads weights.
        """
        trust = bool(self.situation.settings.get("trust_remote_code"))
        asked = {"path": named.path, "revision": named.revision, "trust_remote_code": trust}
        try:
            return folder, self._ask("shrink.model", folder=folder, **asked)
        except WorkerAnswerError as error:
            if error.type_name not in _NOT_IMPORTED:
                raise
            return None

    def _data(self, place: Path, tell: ProgressCallback) -> tuple[Path | None, list[Source]]:
        """Return where the first rows are; None where the libraries refuse the data, as they then do in training."""
        sources = sources_of(self.situation)
        if not sources:
            return None, []
        tell("taking the first rows of the data")
        wanted = [{**source.entry, "file": source.file, "rows": source.rows} for source in sources]
        try:
            self._ask("shrink.rows", sources=wanted, folder=str(place / "rows"))
        except WorkerAnswerError as error:
            if error.type_name in _TOO_MUCH:
                raise
            return None, sources
        return place / "rows", sources

    def _ask(self, question: str, **arguments: Any) -> Any:
        if self._cancelled.is_set():
            raise _ended()
        timeout = max(1.0, self._deadline - time.monotonic())
        return self._asker.ask(question, timeout=timeout, cwd=self.situation.plan.cwd, **arguments)

    def _command(self, run: RunDirectory, staged: Staged, changes: dict[str, Any]) -> Command:
        """Write the configuration of the rehearsal, and return the command that a run of it would have."""
        situation, settings = self.situation, self.situation.settings
        config = rehearsed_config(situation, staged)
        run.attempt(1).mkdir(parents=True)
        write_atomically(run.attempt(1) / "config.yaml", config.encode("utf-8"))
        ranks = ("--num_processes", str(processes_of(situation)), "--main_process_port", "0")
        machines = ("--num_machines", "1", "--machine_rank", "0") if settings.machines > 1 else ()
        changed = msgspec.structs.replace(
            situation,
            plan=msgspec.structs.replace(situation.plan, config=config),
            settings=msgspec.structs.replace(
                settings,
                script_flags=kept_flags(situation),
                launch_arguments=(*settings.launch_arguments, *(ranks if situation.processes > 1 else ()), *machines),
            ),
        )
        flags = rehearsed_flags(situation, staged, run.path / "output", changes)
        command = training_command(run, 1, changed, self.python, extra_flags=flags)
        # What `datasets` makes of the first rows is of no use afterwards.
        cache = {"HF_DATASETS_CACHE": str(run.path / "datasets")} if staged.rows is not None else {}
        return msgspec.structs.replace(command, environment={**command.environment, **cache, _BOUND: "1"})

    def _train(self, run: RunDirectory, command: Command, heard: Heard) -> tuple[int | None, bool]:
        """Run the command; return its exit code (None where its end was not awaited) and whether it ran out of time."""
        with _running(run, command) as process:
            over: float | None = None
            while process.poll() is None:
                heard.listen()
                over = over or (time.monotonic() if heard.over else None)
                if self._cancelled.is_set():
                    raise _ended()
                if time.monotonic() > self._deadline:
                    return None, True
                if over and time.monotonic() > over + _GRACE:  # a rank may hang when it takes down its connection
                    return None, False
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=_TICK)
            heard.listen()
            return process.returncode, False


@contextlib.contextmanager
def _running(run: RunDirectory, command: Command) -> Iterator[subprocess.Popen[bytes]]:
    """Have the command running, its output in the attempt's log; in the end none of its processes lives."""
    with open_log(run.output(1)) as output:
        try:
            process = subprocess.Popen(
                command.argv,
                cwd=command.cwd,
                env={**os.environ, **command.environment},
                stdin=subprocess.PIPE,  # with its end the processes end, also where this one is killed
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise KerneltuiError(f"Cannot start {command.argv[0]}", error.strerror or str(error)) from error
    try:
        yield process
    finally:
        if process.poll() is None:
            end_processes(run.path, grace=2.0)
        process.communicate()


def rehearse(
    situation: Situation,
    python: Path,
    asker: Asker,
    *,
    on_progress: ProgressCallback | None = None,
    limit: float = LIMIT,
) -> Rehearsal:
    """Return what came of a rehearsal; raises as `Rehearsing.run`."""
    return Rehearsing(situation, python, asker, limit=limit).run(on_progress)


def _check(situation: Situation) -> None:
    """Raise KerneltuiError where it cannot be made here and now."""
    if situation.elsewhere:
        raise KerneltuiError(
            "No rehearsal of a plan for another machine", "It is known by its report alone.", "Rehearse it there."
        )
    if why := no_room(situation, _NEEDED):
        raise KerneltuiError("No room for a rehearsal", why, "Wait, or name another card with --gpus.")


def _ended() -> KerneltuiError:
    return KerneltuiError("The rehearsal was cancelled", hint="`kerneltui prove` makes it again.")


def _in_words(answer: dict[str, Any]) -> str:
    layers, kinds = answer["layers"], answer["kinds"]
    several = f" of {kinds} kinds" if kinds > 1 else ""
    without = f", without {', '.join(answer['left_out'])}" if answer["left_out"] else ""
    return f"{answer['kind']}, {layers} layers{several}, {answer['parameters'] / 1e6:.1f} M random weights{without}"
