"""A plan as a batch script for Slurm: one machine keeps a run's record, several are started by the `trl` command alone.

Checked against accelerate 1.15 (`commands/launch.py`, `utils/launch.py`) and the manual of Slurm's sbatch and srun.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from kerneltui.errors import UsageError
from kerneltui.plan.devices import VISIBLE
from kerneltui.plan.form_parts import (
    configuration_file,
    environment,
    secret_flags,
    secrets_comment,
    unknown_comment,
    without_secrets,
)
from kerneltui.plan.plan import Plan, file_variables
from kerneltui.plan.script import COMMANDS
from kerneltui.plan.secrets import is_secret
from kerneltui.plan.settings import Settings

# What the script itself says to `accelerate launch`.
_OWN = ("num_machines", "num_processes", "machine_rank", "main_process_ip", "main_process_port")
# A guess for reading, tokenizing and loading data; the script asks the person to change it.
_CPUS_PER_GPU = 8
# Between the signal and the time limit, seconds: for a step, a checkpoint and the final model.
_NOTICE = 600
_WAIT = """\
while kill -0 "$step" 2> /dev/null; do wait "$step"; done # a signal interrupts it
wait "$step"
code=$?
"""


def as_slurm(plan: Plan, settings: Settings) -> str:
    """Return the script for sbatch. What it trains on is Slurm's choice; of the plan's GPUs only their number counts.

    Raises UsageError where the processes cannot be shared out evenly, and for several machines with a trainer that the
    `trl` command does not have.
    """
    machines, processes = _counts(plan, settings)
    config, comments = configuration_file(plan)
    program = "trl" if machines > 1 else "kerneltui launch"
    words = [*program.split(), plan.trainer, *(["--config", config] if config else [])]
    flags = [*_without(plan.flags, _OWN if machines > 1 else ("num_processes",))]
    command = shlex.join([*words, *without_secrets(flags)])
    body = _several(plan, settings, command) if machines > 1 else _one(plan, command, processes)
    notes = [*_notes(machines), *comments, *_left_out(plan, settings)]
    parts = [
        "#!/bin/bash\n" + "".join(f"{line}\n" for line in _head(plan.trainer, settings, machines, processes)),
        "".join(f"# {' '.join(note.splitlines())}\n" for note in notes),
        "".join(f"{line}\n" for line in _place(plan)),
        f"# GPUs of each machine, and so processes.\nprocesses=${{SLURM_GPUS_ON_NODE:-{processes}}}\n",
        body,
    ]
    return "\n".join(parts)


def _counts(plan: Plan, settings: Settings) -> tuple[int, int]:
    """Return the number of machines, and of processes on each: the plan's GPUs, else what accelerate would start."""
    machines = int(settings.accelerate.get("num_machines") or settings.machines)
    if plan.launch.gpus is not None:
        return machines, max(len(plan.launch.gpus), 1)
    processes = int(settings.accelerate.get("num_processes") or settings.processes)
    if processes > machines and processes % machines:
        raise UsageError(
            f"{processes} processes cannot be shared out evenly over {machines} machines",
            "accelerate launch would start fewer of them without a word.",
            f"Give --num_processes as a multiple of {machines}, or --gpus for the GPUs of each machine.",
        )
    return machines, max(processes // machines, 1)


def _head(trainer: str, settings: Settings, machines: int, processes: int) -> Iterator[str]:
    yield f"#SBATCH --job-name={trainer}"
    yield f"#SBATCH --nodes={machines}"
    yield "#SBATCH --ntasks-per-node=1"
    on_cpu = settings.get("use_cpu") or settings.accelerate.get("cpu")
    if not on_cpu:
        yield f"#SBATCH --gpus-per-node={processes}"
    yield f"#SBATCH --cpus-per-task={_CPUS_PER_GPU * processes}"
    yield "#SBATCH --output=%x-%j.out"
    yield "#SBATCH --open-mode=append"
    yield "#SBATCH --requeue"
    yield f"#SBATCH --signal=B:USR1@{_NOTICE}"
    yield "# Fill in what your cluster asks for and take one # away; look at the CPUs above too, which are a guess."
    yield from (f"##SBATCH --{name}" for name in ("partition=", "account=", "time=24:00:00", "mem=0"))


def _notes(machines: int) -> Iterator[str]:
    programs = "trl is" if machines > 1 else "kerneltui and trl are"
    yield f"Submit it from a shell in which {programs} found: sbatch hands its environment on, tokens too."
    yield "All paths must lie on a disk that the machines share. What is to come from the Hub: kerneltui fetch, before."
    if machines > 1:
        yield "Each machine starts trl, which hands to accelerate launch what is meant for it."
        yield "There is no record of kerneltui here, no live pane and no alerts: its record is of one machine's runs."
        yield f"{_NOTICE // 60} minutes before the time limit it is requeued, and goes on from its last checkpoint:"
        yield "what came after that is trained again, so let save_steps be small enough."
        return
    yield "The run is slurm-JOB in ./kerneltui-runs, or $KERNELTUI_RUNS; kerneltui watch slurm-JOB follows it."
    yield f"{_NOTICE // 60} minutes before the time limit it stops with a checkpoint, is requeued, and goes on from it"
    yield "as the next attempt of the same run."


def _left_out(plan: Plan, settings: Settings) -> Iterator[str]:
    if plan.launch.gpus is not None:
        yield f"Slurm chooses the GPUs: of {', '.join(map(str, plan.launch.gpus))} only the number is kept."
    if VISIBLE in file_variables(plan.config):
        yield f"The configuration's env sets {VISIBLE}, which comes after Slurm's choice: take it out there."
    yield from secrets_comment([*secret_flags(plan.flags), *filter(is_secret, environment(plan))])
    yield from unknown_comment(settings.unknown)


def _place(plan: Plan) -> Iterator[str]:
    """Give the directory and the variables of the plan, but those that choose GPUs and those that are secret."""
    yield f"cd -- {shlex.quote(plan.cwd)} || exit 1"
    for name, value in plan.launch.environment.items():
        if name != VISIBLE and not is_secret(name):
            yield f"export {name}={shlex.quote(value)}"


def _one(plan: Plan, command: str, processes: int) -> str:
    """Return the part that launches a run of kerneltui, or resumes it when the job was requeued."""
    more = ' --num_processes "$processes"' if processes > 1 else ""
    more += f" --on-alert {shlex.quote(plan.launch.on_alert)}" if plan.launch.on_alert else ""
    return f"""\
runs=${{KERNELTUI_RUNS:-$PWD/kerneltui-runs}}
name=slurm-$SLURM_JOB_ID
if [ -e "$runs/$name/state.json" ]; then
    # The first kerneltui that looks writes down how the last attempt ended.
    kerneltui runs --runs-dir "$runs" > /dev/null
    sleep 15
    command=(kerneltui resume "$name" --gone)
else
    command=({command} --name "$name"{more})
fi

again=
stop_and_requeue() {{
    again=yes
    kerneltui stop "$name" --runs-dir "$runs"
}}
trap stop_and_requeue USR1
srun --cpus-per-task="${{SLURM_CPUS_PER_TASK:-1}}" "${{command[@]}}" --runs-dir "$runs" --wait &
step=$!
{_WAIT}\
if [ -n "$again" ] && grep -q '"phase": *"stopped"' "$runs/$name/state.json"; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
"""


def _several(plan: Plan, settings: Settings, command: str) -> str:
    """Return the part that starts one launcher on each machine, from the job's last checkpoint where it has one."""
    if plan.trainer not in COMMANDS:
        raise UsageError(
            f"There is no Slurm form of {plan.trainer} for several machines",
            "It is experimental in TRL, and the trl command does not have it.",
            "Train it on one machine: without num_machines.",
        )
    written = str(settings.get("output_dir")) if "output_dir" in settings.given else None
    output = shlex.quote(str(Path(plan.cwd, Path(written).expanduser()))) if written else "$PWD/slurm-$SLURM_JOB_ID"
    port = settings.accelerate.get("main_process_port") or "$((15000 + SLURM_JOB_ID % 15000))"
    more = ' --output_dir "$output"' if written is None else ""
    return f"""\
output={output}
# Only what this job has written counts: the directory may hold checkpoints of others.
begun=$output/.slurm-$SLURM_JOB_ID
mkdir -p -- "$output" || exit 1
[ -e "$begun" ] || : > "$begun" || exit 1
last_checkpoint() {{ # trainer_state.json is written after model and optimizer
    find "$output" -mindepth 2 -maxdepth 2 -path '*/checkpoint-*/trainer_state.json' -newer "$begun" -printf '%h\\n' |
        sort -V | tail -n 1
}}

command=({command}{more})
checkpoint=$(last_checkpoint)
if [ -n "$checkpoint" ]; then command+=(--resume_from_checkpoint "$checkpoint"); fi
command+=(
    --num_machines "$SLURM_JOB_NUM_NODES" --num_processes "$((SLURM_JOB_NUM_NODES * processes))"
    --main_process_ip "$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)"
    --main_process_port {port}{_launcher(settings)}
)

requeue() {{
    if [ "$(last_checkpoint)" = "$checkpoint" ]; then
        echo "Not requeued: no checkpoint was written in this attempt. Make save_steps smaller." >&2
    else
        scontrol requeue "$SLURM_JOB_ID"
    fi
}}
trap requeue USR1
# shellcheck disable=SC2016 # each machine has its own SLURM_NODEID
srun --kill-on-bad-exit=1 --cpus-per-task="${{SLURM_CPUS_PER_TASK:-1}}" \\
    bash -c 'exec "$@" --machine_rank "$SLURM_NODEID"' bash "${{command[@]}}" &
step=$!
{_WAIT}\
exit "$code"
"""


def _launcher(settings: Settings) -> str:
    """Return the arguments without which accelerate would not start processes on several machines by itself.

    It turns to its launcher for many by itself only where torch sees several GPUs, and DeepSpeed would use ssh.
    """
    found = settings.accelerate
    if settings.machines == 1 and settings.processes == 1 and not found.get("cpu") and not found.get("multi_gpu"):
        return " --multi_gpu"
    deepspeed = found.get("use_deepspeed") or "config_file" in found
    return " --deepspeed_multinode_launcher standard" if deepspeed else ""


def _without(flags: Sequence[str], names: Sequence[str]) -> Iterator[str]:
    """Give the flags but those of these names, which all take one value."""
    rest = iter(flags)
    for flag in rest:
        name, equals, _ = flag.partition("=")
        if not (name.startswith("--") and name[2:].replace("-", "_") in names):
            yield flag
        elif not equals:
            next(rest, None)
