"""Launching a run: its directory, its command, its supervisor."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from kerneltui import __version__
from kerneltui.advice.assessment import Assessment
from kerneltui.advice.situation import Situation
from kerneltui.errors import KerneltuiError, UsageError
from kerneltui.facts.cached import cache_folder, cached_kernels, make_loadable
from kerneltui.facts.proof import Proof, no_proof
from kerneltui.interpreter import worker_command
from kerneltui.paths import check_run_name
from kerneltui.plan.devices import ORDER, VISIBLE, name_gpus
from kerneltui.plan.secrets import without_secrets
from kerneltui.plan.settings import Settings
from kerneltui.runs.directory import Command, RunDirectory, RunRecord
from kerneltui.runs.names import new_name
from kerneltui.runs.places import remember
from kerneltui.runs.processes import ATTEMPT, MARK
from kerneltui.runs.start import begin_attempt, write_attempt, write_command
from kerneltui.runs.supervisor import initial_state
from kerneltui.text import now

# huggingface_hub.constants.HF_HUB_DISABLE_TELEMETRY
_TELEMETRY_OFF = ("HF_HUB_DISABLE_TELEMETRY", "DISABLE_TELEMETRY", "DO_NOT_TRACK")


def launch(
    situation: Situation,
    assessment: Assessment,
    runs: Path,
    python: Path,
    *,
    forced: bool = False,
    proof: Proof | None = None,
) -> RunDirectory:
    """Start a run in a new directory under `runs` and return it once its supervisor has taken over.

    Raises KerneltuiError when the assessment blocks or the `proof` failed (unless `forced`), UsageError for a name that
    is taken or cannot be used. Where it raises, it leaves nothing behind.
    """
    if assessment.blocked and not forced:
        raise KerneltuiError(
            "Not launched: something blocks",
            "\n".join(f"✖ {finding.title}" for finding in assessment.findings if finding.severity == "block"),
            "Mend what blocks (`kerneltui check` says why), or launch all the same with --force.",
        )
    if proof is not None and proof.failed and not forced:
        raise KerneltuiError(
            "Not launched: its proof failed",
            "What was tried before the launch does not work on this machine.",
            "`kerneltui prove` shows it again; launch all the same with --force.",
        )
    make_kernel_loadable(situation)
    run = _make_directory(runs, situation.plan.launch.name)
    try:
        command = _write_record(run, situation, assessment, python, forced)
        run.write("proof.json", proof or no_proof("no proof was asked for"))
        begin_attempt(run, command)
    except BaseException:
        shutil.rmtree(run.path, ignore_errors=True)
        raise
    remember(runs)
    return run


def make_kernel_loadable(situation: Situation) -> None:
    """Let the kernel of a run that does not ask the Hub load from the cache, where that holds its build whole.

    Of a run that asks the Hub nothing is touched.
    """
    if not situation.offline:
        return
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
        argv=(*worker_command(python, "launch", *_free_port(settings), *settings.launch_arguments), *train[1:]),
        cwd=plan.cwd,
        environment=_environment(run, number, situation),
    )


def _free_port(settings: Settings) -> tuple[str, ...]:
    """Return the argument that lets several processes of one machine meet at a port that is free.

    Else it is 29500 for every run, and a second one on the machine does not start (accelerate 1.15 utils/launch.py).
    """
    chosen = settings.machines > 1 or "main_process_port" in settings.accelerate
    return () if settings.processes < 2 or chosen else ("--main_process_port", "0")


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
    write_attempt(run, 1, None if plan.config is None else plan.config.encode("utf-8"))
    command = training_command(run, 1, situation, python)
    output = situation.settings.get("output_dir") if "output_dir" in situation.settings.given else run.path / "output"
    write_command(run, 1, command)
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
    run.write("state.json", initial_state(1))
    return command
