"""Launching a run: its directory, its command, its supervisor."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

from kerneltui import __version__
from kerneltui.advice.assessment import Assessment
from kerneltui.advice.situation import Situation
from kerneltui.errors import KerneltuiError, UsageError
from kerneltui.facts.cached import cache_folder, cached_kernels, make_loadable
from kerneltui.interpreter import worker_command
from kerneltui.paths import check_run_name, write_atomically
from kerneltui.plan.devices import ORDER, VISIBLE, name_gpus
from kerneltui.plan.plan import Plan
from kerneltui.plan.secrets import without_secrets
from kerneltui.runs.directory import Command, RunDirectory, RunRecord
from kerneltui.runs.handover import hidden_command
from kerneltui.runs.last_words import read_last_words
from kerneltui.runs.lock import holding
from kerneltui.runs.names import new_name
from kerneltui.runs.places import remember
from kerneltui.runs.processes import ATTEMPT, MARK, end_processes
from kerneltui.runs.supervisor import initial_state, start_supervisor
from kerneltui.text import now

# huggingface_hub.constants.HF_HUB_DISABLE_TELEMETRY
_TELEMETRY_OFF = ("HF_HUB_DISABLE_TELEMETRY", "DISABLE_TELEMETRY", "DO_NOT_TRACK")

# Seconds until a supervisor must have written that it took over.
_START_LIMIT = 60.0


def launch(
    situation: Situation, assessment: Assessment, runs: Path, python: Path, *, forced: bool = False
) -> RunDirectory:
    """Start a run in a new directory under `runs` and return it once its supervisor has taken over.

    Raises KerneltuiError when the assessment blocks (unless `forced`), UsageError for a name that is taken or cannot be
    used. Where it raises, it leaves nothing behind.
    """
    if assessment.blocked and not forced:
        raise KerneltuiError(
            "Not launched: something blocks",
            "\n".join(f"✖ {finding.title}" for finding in assessment.findings if finding.severity == "block"),
            "Mend what blocks (`kerneltui check` says why), or launch all the same with --force.",
        )
    if situation.offline:
        _make_loadable(situation)
    run = _make_directory(runs, situation.plan.launch.name)
    try:
        command = _write_record(run, situation, assessment, python, forced)
    except BaseException:
        shutil.rmtree(run.path, ignore_errors=True)
        raise
    _begin(run, command)
    remember(runs)
    return run


def _make_loadable(situation: Situation) -> None:
    """Let the kernel of a run that does not ask the Hub load from the cache, where that holds its build whole."""
    for kernel in cached_kernels(cache_folder(situation.plan.environment)).get(str(situation.attention.repository), ()):
        make_loadable(kernel)


def training_command(
    run: RunDirectory, number: int, situation: Situation, python: Path, *, extra_flags: tuple[str, ...] = ()
) -> Command:
    """Return the command of attempt `number`: `accelerate launch` of the training program, as `trl` does it."""
    plan, settings = situation.plan, situation.settings
    config = ("--config", str(run.attempt(number) / "config.yaml")) if plan.config is not None else ()
    output = () if "output_dir" in settings.given else ("--output_dir", str(run.path / "output"))
    train = worker_command(python, "train", plan.trainer, *config, *settings.script_flags, *output, *extra_flags)
    return Command(
        argv=(*worker_command(python, "launch", *settings.launch_arguments), *train[1:]),
        cwd=plan.cwd,
        environment=_environment(run, number, situation),
    )


def _environment(run: RunDirectory, number: int, situation: Situation) -> dict[str, str]:
    plan = situation.plan
    found = {
        MARK: str(run.path),
        ATTEMPT: str(number),
        "PYTHONUNBUFFERED": "1",
        # So that a GPU's number means the same card to NVML, to torch and to the person.
        ORDER: "PCI_BUS_ID",
        **plan.environment,
    }
    if any(os.environ.get(name) for name in _TELEMETRY_OFF):
        # Without telemetry kernels 0.17.2 ends its User-Agent header in "; ", which the HTTP client refuses to send.
        found.setdefault("HF_HUB_USER_AGENT_ORIGIN", "kerneltui")
    if plan.launch.gpus is not None:
        found |= {VISIBLE: name_gpus(plan.launch.gpus, situation.server), ORDER: "PCI_BUS_ID"}
    return found


def _make_directory(runs: Path, name: str | None) -> RunDirectory:
    check_run_name(name) if name is not None else None
    try:
        runs.mkdir(parents=True, exist_ok=True)
        while True:
            path = runs / (name or new_name())
            try:
                path.mkdir(mode=0o700)
            except FileExistsError:
                if name is not None:
                    raise UsageError(
                        f"There is already a run {name!r} in {runs}", hint="Give another name with --name."
                    ) from None
                continue
            return RunDirectory(path)
    except OSError as error:
        raise KerneltuiError(
            f"Cannot make a run directory in {runs}",
            error.strerror or str(error),
            "Check permissions and free space, or choose another directory with --runs-dir.",
        ) from error


def _write_record(
    run: RunDirectory, situation: Situation, assessment: Assessment, python: Path, forced: bool
) -> Command:
    """Write what is known before the start, without secrets, and return the command with them."""
    plan = situation.plan
    _make_attempt(run, 1, plan)
    command = training_command(run, 1, situation, python)
    output = situation.settings.get("output_dir") if "output_dir" in situation.settings.given else run.path / "output"
    run.write("attempts/1/command.json", hidden_command(command))
    run.write(
        "run.json",
        RunRecord(
            name=run.name,
            time=now(),
            kerneltui=__version__,
            plan=without_secrets(plan),
            will_run=assessment.will_run,
            findings=assessment.findings,
            forced=forced,
            output_dir=str(Path(plan.cwd, output)),
            server=situation.server,
            environment_names=tuple(sorted(command.environment)),
        ),
    )
    run.write("proof.json", {"schema": 1, "made": False, "reason": "no proof was asked for"})
    run.write("state.json", initial_state(1))
    return command


def _make_attempt(run: RunDirectory, number: int, plan: Plan) -> None:
    try:
        run.attempt(number).parent.mkdir(mode=0o700, exist_ok=True)
        run.attempt(number).mkdir(mode=0o700)
    except OSError as error:
        raise KerneltuiError(
            f"Cannot write {run.path}", error.strerror or str(error), "Check permissions and free space."
        ) from error
    if plan.config is not None:
        write_atomically(run.attempt(number) / "config.yaml", plan.config.encode("utf-8"))


def _begin(run: RunDirectory, command: Command) -> None:
    """Start the run's supervisor and wait until it has taken over; otherwise nothing stays of the run."""
    supervisor = None
    try:
        supervisor = start_supervisor(run, command)
        _await_start(run, supervisor)
    except BaseException as error:
        _undo(run, supervisor)
        if isinstance(error, OSError):
            raise KerneltuiError(
                f"Cannot start {run.name}", error.strerror or str(error), "Check permissions and free space."
            ) from error
        raise


def _await_start(run: RunDirectory, supervisor: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_LIMIT
    while run.read_state().phase == "starting":
        # It may have written that it took over, and then have ended, since the state was read.
        ended = supervisor.poll() is not None and run.read_state().phase == "starting" and not _is_watched(run)
        if ended or time.monotonic() > deadline:
            words = read_last_words(run.path / "supervisor.log")
            raise KerneltuiError(
                f"{run.name} was not started: its supervisor " + ("ended at once" if ended else "did not answer"),
                words.exception or words.line or "It said nothing.",
                "Nothing of the run is left. Try again; `kerneltui doctor` reads this server anew.",
            )
        time.sleep(0.05)


def _is_watched(run: RunDirectory) -> bool:
    """Whether another supervisor, which a front end may have started meanwhile, looks after the run."""
    with holding(run.lock) as free:
        return not free


def _undo(run: RunDirectory, supervisor: subprocess.Popen[bytes] | None) -> None:
    """End what was started of a run and remove its directory."""
    if supervisor is not None:
        supervisor.kill()
        supervisor.wait()
    end_processes(run.path)
    shutil.rmtree(run.path, ignore_errors=True)
