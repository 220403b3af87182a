"""Whether a run would outlive the session that starts it."""

from __future__ import annotations

from collections.abc import Callable

from kerneltui.advice.finding import Finding, Fix
from kerneltui.facts.server import Server


def logout(server: Server) -> list[Finding]:
    """The system may end all processes of a user at logout, also those in a session of their own."""
    stay = server.stay
    if stay is None or not stay.kill_user_processes or stay.linger:
        return []
    return [
        Finding(
            id="session.logout",
            severity="warn",
            title="A run would end when you log out",
            why="This machine ends all processes of a user at logout (KillUserProcesses), unless the user lingers.",
            origin="observed",
            source="https://www.freedesktop.org/software/systemd/man/latest/logind.conf.html (KillUserProcesses=)",
            fixes=(Fix(label="Linger", command="loginctl enable-linger"),),
        )
    ]


def slurm(server: Server) -> list[Finding]:
    """What was started in a job of Slurm ends with it."""
    job = server.stay.slurm_job if server.stay else None
    if job is None:
        return []
    return [
        Finding(
            id="session.slurm",
            severity="note",
            title=f"A run would end with the Slurm job {job}",
            why="An interactive job ends with its shell or at its time limit, and takes the run with it. For a long "
            "run submit a batch job that runs `kerneltui launch … --wait`.",
            origin="known",
            source="https://slurm.schedmd.com/sbatch.html",
            fixes=(Fix(label="See how long it still has", command=f"squeue -j {job} -o %L"),),
        )
    ]


def container(server: Server) -> list[Finding]:
    """What was started in a container ends with the container's first process."""
    kind = server.stay.container if server.stay else None
    if kind is None or server.stay is None or server.stay.slurm_job:
        return []
    return [
        Finding(
            id="session.container",
            severity="note",
            title=f"A run would end with this container ({kind})",
            why="Everything in it ends when its first process does, such as a shell that you leave. Keep runs and "
            "checkpoints on a volume, and start a long run in a container that stays.",
            origin="known",
            source="https://docs.docker.com/engine/containers/run/#detached--d",
        )
    ]


RULES: tuple[Callable[[Server], list[Finding]], ...] = (logout, slurm, container)
