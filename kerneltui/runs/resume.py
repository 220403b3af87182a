"""Going on with a run: from the newest checkpoint that is whole, as the next attempt of the same run."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from kerneltui.errors import KerneltuiError
from kerneltui.fetch import gigabytes
from kerneltui.interpreter import WORKER
from kerneltui.plan.plan import file_variables
from kerneltui.runs.checkpoints import JudgedCheckpoint, judge_checkpoints
from kerneltui.runs.contact import is_here, lost_since, lost_words
from kerneltui.runs.control import watch_over
from kerneltui.runs.directory import ACTIVE, Command, RunDirectory, State
from kerneltui.runs.handover import whole_command
from kerneltui.runs.lock import holding
from kerneltui.runs.places import remember
from kerneltui.runs.processes import ATTEMPT, MARK, processes_of
from kerneltui.runs.start import begin_attempt, write_attempt, write_command
from kerneltui.runs.supervisor import initial_state

FLAG = "--resume_from_checkpoint"
# A supervisor that has written a run's end may still hold the lock for a moment. Seconds.
_PATIENCE = 5.0


@dataclass(frozen=True)
class Resumption:
    """How a run can go on: from which checkpoint, as which attempt, and the newer ones that were passed over."""

    run: RunDirectory
    attempt: int
    checkpoint: JudgedCheckpoint
    passed_over: tuple[JudgedCheckpoint, ...]

    @property
    def words(self) -> list[str]:
        """One line on the checkpoint, and one on each that was passed over, with the reason."""
        chosen = self.checkpoint
        size = gigabytes(chosen.size)
        return [f"from the checkpoint of step {chosen.step} ({size}): {chosen.path}", *map(_passed, self.passed_over)]


def plan_resumption(run: RunDirectory, *, gone: bool = False) -> Resumption:
    """Return how a run that has ended can go on. It reads the ends and the headers of files, not all of them.

    `gone` is the person's word that the machine of an active run is no more. Raises KerneltuiError where the run is
    live, finished, without a whole checkpoint, or without room for its next one.
    """
    state = watch_over(run)
    _refuse(run, state, gone)
    record = run.read_run()
    judged = judge_checkpoints(run, record)
    good = next((found for found in judged if not found.faults), None)
    passed = tuple(found for found in judged if found.faults)
    if good is None:
        raise KerneltuiError(
            f"{run.name} has no checkpoint to go on from",
            "\n".join(map(_passed, passed)) or f"None was written in {record.output_dir}.",
            "Mend what ended it, and launch it anew.",
        )
    _check_room(good)
    return Resumption(run, state.attempt + 1, good, passed)


def resume(resumption: Resumption, flags: Sequence[str] = ()) -> None:
    """Start the next attempt from the checkpoint; returns once its supervisor has taken over.

    `flags` are TRL's, and override those of the attempt before. Raises KerneltuiError; the record is then as it was.
    """
    run, number = resumption.run, resumption.attempt
    command = next_command(run, number, resumption.checkpoint.path, flags)
    with _unwatched(run):
        before = run.read_state()
        if before.attempt + 1 != number:
            raise KerneltuiError(f"{run.name} goes on already", f"Attempt {before.attempt} was started meanwhile.")
        try:
            write_attempt(run, number, _config(run, before.attempt))
            write_command(run, number, command)
            run.request.unlink(missing_ok=True)
            run.write("state.json", initial_state(number))
        except BaseException:
            _undo(run, number, before)
            raise
    try:
        begin_attempt(run, command)
    except BaseException:
        _undo(run, number, before)
        raise
    remember(run.path.parent)


def next_command(run: RunDirectory, number: int, checkpoint: Path, flags: Sequence[str] = ()) -> Command:
    """Return the command of attempt `number`: that of the one before, from a checkpoint.

    What its record hides is taken from the attempt's configuration, from `flags` and from the environment. Raises
    KerneltuiError where a secret is in none of them.
    """
    last = number - 1
    written = run.read_command(last)
    old, new = _config_path(written, run, last), str(run.attempt(number) / "config.yaml")
    words = [new if word == old else word for word in _without(written.argv, {FLAG, *_names(flags)})]
    # kerneltui may have been installed anew since, elsewhere.
    words = [str(WORKER) if Path(word).parts[-2:] == WORKER.parts[-2:] else word for word in words]
    command = msgspec.structs.replace(
        written,
        argv=(*words, *flags, FLAG, str(checkpoint)),
        environment={**written.environment, MARK: str(run.path), ATTEMPT: str(number)},
    )
    config = _config(run, last)
    variables = file_variables(config.decode("utf-8", "replace")) if config is not None else {}
    try:
        return whole_command(command, {**os.environ, **{name: str(value) for name, value in variables.items()}})
    except KerneltuiError as error:
        raise KerneltuiError(
            f"{run.name} cannot go on: {error.title}",
            f"{error.message}.",
            "Give flags anew (kerneltui resume RUN --hub_token …), and set variables in this shell.",
        ) from error


def _refuse(run: RunDirectory, state: State, gone: bool) -> None:
    """Raise KerneltuiError for a run that does not end, that has come to its end, or that has left something."""
    if state.phase in ACTIVE and not (gone and not is_here(state)):
        since = lost_since(run, state)
        away = f"If {state.hostname} is gone for good: kerneltui resume {_quoted(run)} --gone"
        raise KerneltuiError(
            f"{run.name} is {state.phase}",
            f"It has not ended: {lost_words(state, since)}." if since else "It has not ended.",
            away if since and not is_here(state) else f"Stop it first: kerneltui stop {_quoted(run)}",
        )
    if state.phase == "finished":
        raise KerneltuiError(
            f"{run.name} is finished", "It came to its last step, and its model is saved.", "Launch a new run."
        )
    left = processes_of(run.path)
    if left:
        raise KerneltuiError(
            f"Processes of {run.name} still live",
            f"They may hold the GPUs: {', '.join(str(process.pid) for process in left)}.",
            f"End them: kerneltui stop {_quoted(run)} --now",
        )


def _check_room(checkpoint: JudgedCheckpoint) -> None:
    free = shutil.disk_usage(checkpoint.path.parent).free
    if free < checkpoint.size:
        raise KerneltuiError(
            "There is no room for the next checkpoint",
            f"It takes about {gigabytes(checkpoint.size)}, and {gigabytes(free)} are free in {checkpoint.path.parent}.",
            "Remove what is not needed there; older checkpoints of the run, for example.",
        )


@contextlib.contextmanager
def _unwatched(run: RunDirectory) -> Iterator[None]:
    """Hold the run's lock. Raises KerneltuiError where a supervisor holds it, or where it is another person's run."""
    try:
        with holding(run.lock, patience=_PATIENCE) as free:
            if not free:
                raise KerneltuiError(f"{run.name} is looked after", "A supervisor holds its lock.", "Try again.")
            yield
    except OSError as error:
        raise KerneltuiError(
            f"Cannot write {run.path}", error.strerror or str(error), "Only its owner can go on with a run."
        ) from error


def _undo(run: RunDirectory, number: int, before: State) -> None:
    shutil.rmtree(run.attempt(number), ignore_errors=True)
    with contextlib.suppress(KerneltuiError):  # the disk may be full, which is what is being told
        run.write("state.json", before)


def _config(run: RunDirectory, number: int) -> bytes | None:
    try:
        return (run.attempt(number) / "config.yaml").read_bytes()
    except FileNotFoundError:
        return None


def _config_path(command: Command, run: RunDirectory, number: int) -> str:
    """Return the path of the configuration as the command names it; the run may have been moved since."""
    return str(RunDirectory(Path(command.environment.get(MARK, run.path))).attempt(number) / "config.yaml")


def _names(flags: Sequence[str]) -> set[str]:
    return {flag.partition("=")[0] for flag in flags if flag.startswith("--")}


def _without(words: Sequence[str], names: set[str]) -> Iterator[str]:
    """Give a command's words without the script's flags of these names and their values."""
    # Those of `accelerate launch` stand before the script, which is the worker's path for the second time.
    script = max((place for place, word in enumerate(words) if Path(word).name == WORKER.name), default=0)
    yield from words[:script]
    inside = False
    for word in words[script:]:
        if word.startswith("--"):
            inside = word.partition("=")[0] in names
        if not inside:
            yield word


def _passed(checkpoint: JudgedCheckpoint) -> str:
    return f"passed over {checkpoint.path.name}: {'; '.join(checkpoint.faults)}"


def _quoted(run: RunDirectory) -> str:
    return shlex.quote(str(run.path))
