"""The batch script is run by bash, with programs that stand for Slurm's, and calls what was planned."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kerneltui.errors import UsageError
from kerneltui.interpreter import Asker
from kerneltui.plan.forms import as_slurm
from kerneltui.plan.plan import Launch, Plan, make_plan
from kerneltui.plan.settings import Settings, read_settings
from tests.plan.cases import CASES, Case, planned, read
from tests.plan.cluster import submit

TWO_BY_FOUR = ("--num_machines", "2", "--num_processes", "8")


def settings(**known: object) -> Settings:
    return Settings(**{"values": {}, "config_class": "SFTConfig", **known})  # type: ignore[arg-type]


def several(cwd: Path, *, output: str | None = "my out") -> str:
    """Return the script of a plan for two machines of four GPUs."""
    flags = ["--num_machines", "2", *(["--output_dir", output] if output else [])]
    plan = make_plan("sft", flags, cwd=cwd, launch=Launch(gpus=(0, 1, 2, 3)))
    given = {"values": {"output_dir": output}, "given": ("output_dir",)} if output else {}
    return as_slurm(plan, settings(accelerate={"num_machines": 2}, **given))


def one(cwd: Path, **launch: object) -> str:
    return as_slurm(Plan(trainer="sft", cwd=str(cwd), launch=Launch(gpus=(0, 1, 2, 3), **launch)), settings())  # type: ignore[arg-type]


def test_slurm_is_asked_for_the_machines_and_gpus_of_the_plan(tmp_path: Path) -> None:
    shebang, *head = several(tmp_path).partition("\n\n")[0].splitlines()
    assert shebang == "#!/bin/bash"
    assert [line for line in head if line.startswith("#SBATCH ")] == [
        "#SBATCH --job-name=sft", "#SBATCH --nodes=2", "#SBATCH --ntasks-per-node=1", "#SBATCH --gpus-per-node=4",
        "#SBATCH --cpus-per-task=32", "#SBATCH --output=%x-%j.out", "#SBATCH --open-mode=append",
        "#SBATCH --requeue", "#SBATCH --signal=B:USR1@600",
    ]  # fmt: skip
    left = [line.partition("=")[0] for line in head if line.startswith("##SBATCH")]
    assert left == ["##SBATCH --partition", "##SBATCH --account", "##SBATCH --time", "##SBATCH --mem"]


@pytest.mark.parametrize(
    ("gpus", "known", "lines"),
    [
        (None, {"accelerate": {"num_machines": 2, "num_processes": 8}}, ("nodes=2", "gpus-per-node=4")),
        (None, {"machines": 3, "processes": 6}, ("nodes=3", "gpus-per-node=2")),
        ((0, 1), {"machines": 2, "processes": 8}, ("nodes=2", "gpus-per-node=2")),
        (None, {"accelerate": {"num_machines": 2}}, ("nodes=2", "gpus-per-node=1")),
        (None, {"processes": 8}, ("nodes=1", "gpus-per-node=8")),
        ((5,), {}, ("nodes=1", "gpus-per-node=1")),
        (None, {"values": {"use_cpu": True}, "processes": 2}, ("nodes=1", "cpus-per-task=16")),
    ],
)
def test_what_is_not_told_is_counted_as_accelerate_counts(
    gpus: tuple[int, ...] | None, known: dict[str, object], lines: tuple[str, str]
) -> None:
    text = as_slurm(Plan(trainer="sft", cwd="/work", launch=Launch(gpus=gpus)), settings(**known))
    assert [line for line in lines if f"#SBATCH --{line}\n" not in text] == []
    assert ("gpus-per-node" in text) is ("gpus-per-node" in lines[1])


def test_each_machine_starts_one_launcher_that_meets_the_others_at_the_first(tmp_path: Path, asker: Asker) -> None:
    case = Case("sft", flags=(*TWO_BY_FOUR, "--run_name", 'it\'s "a" $HOME `b` \\ \n 你好'))
    plan, known = read(case, tmp_path, asker)
    job = submit(as_slurm(plan, known), tmp_path / "cluster", nodes=2)
    assert (job.code, job.err) == (0, "")
    assert len(job.of("srun")) == 1
    readings = [
        read_settings(make_plan(trainer, rest, cwd=Path(cwd)), asker, devices=4)
        for _, (trainer, *rest), cwd, _ in job.of("trl")
    ]
    assert [reading.accelerate for reading in readings] == [
        {
            "num_machines": 2, "num_processes": 8, "machine_rank": rank, "main_process_ip": "node-a",
            "main_process_port": 15077, "multi_gpu": True,
        }
        for rank in (0, 1)
    ]  # fmt: skip
    for reading in readings:
        assert (reading.machines, reading.processes, reading.unknown) == (2, 8, ())
        assert reading.values == {**known.values, "output_dir": str(tmp_path / "slurm-77")}


def test_a_configuration_of_accelerate_is_kept_and_deepspeed_left_to_this_launcher(
    tmp_path: Path, asker: Asker
) -> None:
    flags = ("--accelerate_config", "zero2", "--num_machines", "2", "--main_process_port", "29501")
    plan, known = read(Case("dpo", flags=flags), tmp_path, asker)
    job = submit(as_slurm(plan, known), tmp_path / "cluster", nodes=2)
    (_, (trainer, *rest), cwd, _), _ = job.of("trl")
    reading = read_settings(make_plan(trainer, rest, cwd=Path(cwd)), asker)
    assert reading.accelerate.pop("config_file") == known.accelerate["config_file"]
    assert reading.accelerate == {
        "num_machines": 2, "num_processes": 8, "machine_rank": 0, "main_process_ip": "node-a",
        "main_process_port": 29501, "deepspeed_multinode_launcher": "standard",
    }  # fmt: skip


def test_who_changes_the_machines_above_changes_the_processes(tmp_path: Path) -> None:
    job = submit(several(tmp_path), tmp_path / "cluster", nodes=3, gpus=2)
    assert len(job.of("trl")) == 3
    for call in job.of("trl"):
        words = call.arguments
        assert words[words.index("--num_machines") + 1 :][:3] == ["3", "--num_processes", "6"]


@pytest.mark.parametrize("name", ["flags alone", "quotes", "accelerate", "environment"])
def test_one_machine_launches_the_run_that_was_planned(tmp_path: Path, asker: Asker, name: str) -> None:
    case, folder = CASES[name], tmp_path / "it's here"
    folder.mkdir()
    plan = planned(case, folder)
    script = as_slurm(plan, read_settings(plan, asker))
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)
    job = submit(script, tmp_path / "cluster", gpus=None)
    assert (job.code, job.err) == (0, "")
    (call,) = job.of("kerneltui")
    verb, trainer, *rest = call.arguments
    processes = ["--num_processes", "2"] if case.launch.gpus else []
    own = ["--name", "slurm-77", *processes, "--runs-dir", f"{folder}/kerneltui-runs", "--wait"]
    assert (verb, rest[-len(own) :]) == ("launch", own)
    again = make_plan(trainer, rest[: -len(own)], cwd=Path(call.cwd), launch=case.launch)
    dropped = ("--num_processes", "1")  # Slurm's GPUs are as many
    assert again == msgspec.structs.replace(plan, flags=tuple(flag for flag in plan.flags if flag not in dropped))
    assert case.launch.environment.items() <= call.environment.items()
    assert "CUDA_VISIBLE_DEVICES" not in call.environment


def test_a_requeued_job_goes_on_from_the_last_checkpoint_that_it_wrote_whole(tmp_path: Path) -> None:
    script, output, cluster = several(tmp_path), tmp_path / "my out", tmp_path / "cluster"
    for old in ("checkpoint-900", "checkpoint-30/half"):
        (output / old).mkdir(parents=True)
    (output / "checkpoint-900" / "trainer_state.json").write_text("{}")
    first = submit(script, cluster, nodes=2, CHECKPOINT=output / "checkpoint-9", TIME_IS_UP=1)
    assert [call.arguments for call in first.of("scontrol")][1:] == [["requeue", "77"]]
    assert all("--resume_from_checkpoint" not in call.arguments for call in first.of("trl"))
    (output / "checkpoint-30").touch()
    second = submit(script, cluster, nodes=2, CHECKPOINT=output / "checkpoint-10", TIME_IS_UP=1)
    third = submit(script, cluster, nodes=2, TIME_IS_UP=1)
    for job, step in ((second, 9), (third, 10)):
        for call in job.of("trl"):
            at = call.arguments.index("--resume_from_checkpoint")
            assert call.arguments[at + 1] == str(output / f"checkpoint-{step}")
    assert len(third.of("scontrol")) == 1
    assert third.err.startswith("Not requeued: no checkpoint was written in this attempt.")


def test_another_job_does_not_take_up_the_checkpoints_of_this_one(tmp_path: Path) -> None:
    script, cluster = several(tmp_path), tmp_path / "cluster"
    submit(script, cluster, nodes=2, CHECKPOINT=tmp_path / "my out" / "checkpoint-9")
    job = submit(script, cluster, nodes=2, SLURM_JOB_ID=78)
    assert all("--resume_from_checkpoint" not in call.arguments for call in job.of("trl"))


def test_a_run_is_stopped_before_the_limit_and_resumed_as_the_same_run(tmp_path: Path) -> None:
    script, cluster = one(tmp_path, on_alert="mail 'me'"), tmp_path / "cluster"
    runs = ["--runs-dir", str(tmp_path / "kerneltui-runs")]
    first = submit(script, cluster, PHASE="stopped", TIME_IS_UP=1)
    alert = ["--num_processes", "4", "--on-alert", "mail 'me'"]
    assert [call.arguments for call in first.of("kerneltui")] == [
        ["launch", "sft", "--name", "slurm-77", *alert, *runs, "--wait"], ["stop", "slurm-77", *runs],
    ]  # fmt: skip
    assert [call.arguments for call in first.of("scontrol")] == [["requeue", "77"]]
    second = submit(script, cluster)
    assert [call.arguments for call in second.of("kerneltui")] == [
        ["runs", *runs], ["resume", "slurm-77", "--gone", *runs, "--wait"],
    ]  # fmt: skip
    assert second.of("scontrol") == []


@pytest.mark.parametrize(
    "situation",
    [{"PHASE": "finished", "TIME_IS_UP": 1}, {"PHASE": "stopped"}, {"PHASE": "failed", "TIME_IS_UP": 1, "CODE": 1}],
)
def test_a_run_is_requeued_only_where_the_limit_has_stopped_it(tmp_path: Path, situation: dict[str, Any]) -> None:
    job = submit(one(tmp_path), tmp_path / "cluster", **situation)
    assert (job.code, job.of("scontrol")) == (situation.get("CODE", 0), [])


def test_the_end_of_the_training_is_the_end_of_the_job(tmp_path: Path) -> None:
    assert submit(several(tmp_path, output=None), tmp_path / "cluster", nodes=2, CODE=3).code == 3


def test_what_slurm_chooses_and_what_is_secret_is_left_out_with_a_word() -> None:
    config = "env: {CUDA_VISIBLE_DEVICES: 1}\n"
    launch = Launch(gpus=(4, 6), environment={"CUDA_VISIBLE_DEVICES": "4", "HF_TOKEN": "hf_x", "SOME": "a b"})
    plan = Plan(trainer="sft", cwd="/work", config=config, flags=("--hub_token", "hf_y"), launch=launch)
    text = as_slurm(plan, settings(unknown=("nonsense",)))
    assert not any(secret in text for secret in ("hf_x", "hf_y", "export CUDA"))
    assert "export SOME='a b'\n" in text
    for word in (
        "# Slurm chooses the GPUs: of 4, 6 only the number is kept.\n",
        "# The configuration's env sets CUDA_VISIBLE_DEVICES, which comes after Slurm's choice: take it out there.\n",
        "# Left out, since secret: --hub_token, HF_TOKEN. Set them where it runs.\n",
        "# Save the configuration (--as yaml) as config.yaml in /work first.\n",
    ):
        assert word in text


@pytest.mark.parametrize(
    ("trainer", "processes", "title"),
    [
        ("sft", 7, "7 processes cannot be shared out evenly over 2 machines"),
        ("gold", 8, "There is no Slurm form of gold for several machines"),
    ],
)
def test_what_cannot_be_started_so_is_refused(trainer: str, processes: int, title: str) -> None:
    known = settings(accelerate={"num_machines": 2, "num_processes": processes})
    with pytest.raises(UsageError) as raised:
        as_slurm(Plan(trainer=trainer, cwd="/work"), known)
    assert raised.value.title == title
