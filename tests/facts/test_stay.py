"""Whether what is started here outlives the session."""

from __future__ import annotations

from pathlib import Path

import pytest

from kerneltui.facts import command, stay
from kerneltui.facts.stay import ends_processes_of, find_container, read_stay


def program(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def booted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A root that systemd has booted; the programs in its bin are the only ones."""
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setattr(stay, "_user", lambda: "anna")
    return tmp_path


# As busctl of systemd 252 prints them; root is excluded where nothing is configured.
SETTINGS = 'b true\nas 0\nas 1 "root"\n'


@pytest.mark.parametrize(
    ("user", "settings", "ends"),
    [
        ("anna", [["b", "true"], ["as", "0"], ["as", "1", "root"]], True),
        ("anna", [["b", "false"], ["as", "0"], ["as", "1", "root"]], False),
        ("root", [["b", "true"], ["as", "0"], ["as", "1", "root"]], False),
        ("anna", [["b", "true"], ["as", "1", "bob"], ["as", "0"]], False),
        ("bob", [["b", "true"], ["as", "1", "bob"], ["as", "0"]], True),
        ("anna", [["b", "true"], ["as", "0"], ["as", "2", "root", "anna"]], False),
    ],
)
def test_systemd_s_three_settings(user: str, settings: list[list[str]], ends: bool) -> None:
    assert ends_processes_of(user, settings) is ends


def test_systemd_is_asked(booted: Path) -> None:
    program(booted / "bin", "busctl", f"cat <<'E'\n{SETTINGS}E")
    program(booted / "bin", "loginctl", 'echo "$*" | grep -q "show-user anna" && echo Linger=yes')
    found = read_stay({}, booted)
    assert (found.kill_user_processes, found.linger, found.unavailable) == (True, True, {})


def test_a_program_that_fails_or_hangs_is_a_reason_for_itself_alone(
    booted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "TIMEOUT", 0.2)
    program(booted / "bin", "busctl", "exec sleep 60")
    program(booted / "bin", "loginctl", "echo 'Failed to connect to bus' >&2; exit 1")
    found = read_stay({"SLURM_JOB_ID": "4711"}, booted)
    assert found.unavailable == {
        "kill_user_processes": "busctl has not answered in 0.2 s",
        "linger": "loginctl: Failed to connect to bus",
    }
    assert (found.kill_user_processes, found.linger, found.slurm_job) == (None, None, "4711")


def test_words_that_nobody_knows_are_a_reason(booted: Path) -> None:
    program(booted / "bin", "busctl", "echo b true")
    program(booted / "bin", "loginctl", "echo Linger=no")
    found = read_stay({}, booted)
    assert found.linger is False
    assert found.unavailable == {"kill_user_processes": "busctl told 1 settings in place of 3"}


def test_where_systemd_does_not_run_the_machine_it_does_not_apply(tmp_path: Path) -> None:
    found = read_stay({}, tmp_path)
    assert (found.kill_user_processes, found.linger, found.unavailable) == (None, None, {})


@pytest.mark.parametrize(
    ("variables", "files", "kind"),
    [
        ({}, {}, None),
        ({}, {".dockerenv": ""}, "docker"),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, {".dockerenv": ""}, "kubernetes"),
        ({"container": "podman"}, {"run/.containerenv": ""}, "podman"),
        ({"APPTAINER_CONTAINER": "/i.sif"}, {}, "apptainer"),
        ({"container": "lxc"}, {}, "lxc"),
        ({}, {"run/systemd/container": "systemd-nspawn\n"}, "systemd-nspawn"),
        ({}, {"proc/1/cgroup": "0::/kubepods/besteffort/pod1/2\n"}, "kubernetes"),
        ({}, {"proc/1/cgroup": "4:memory:/docker/0a1b\n"}, "docker"),
        ({}, {"proc/1/cgroup": "0::/init.scope\n"}, None),
    ],
)
def test_the_kind_of_container(
    tmp_path: Path, variables: dict[str, str], files: dict[str, str], kind: str | None
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert find_container(variables, tmp_path) == kind
