"""Directories that cannot be written, and names that are taken."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from tests.bad_input.command import Command, plan, told

SPACE_HINT = "Check permissions and free space, or choose another directory with --runs-dir."


def test_a_read_only_runs_directory_is_told(
    kerneltui: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the tests run as root no permission stops them; the error of a read-only disk is put in its place."""
    plan(tmp_path / "c.yaml")
    (tmp_path / "runs").mkdir()
    make = Path.mkdir

    def refuse(self: Path, *arguments: Any, **options: Any) -> None:
        if self.parent == tmp_path / "runs":
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        make(self, *arguments, **options)

    monkeypatch.setattr(Path, "mkdir", refuse)
    expected = told(f"Cannot make a run directory in {tmp_path}/runs", "Read-only file system", SPACE_HINT)
    assert kerneltui("launch", "sft", "c.yaml", "--runs-dir", "runs") == (1, "", expected)
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_full_disk_is_told_and_nothing_half_made_stays(
    kerneltui: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    plan(tmp_path / "c.yaml")
    monkeypatch.setattr("kerneltui.paths.os.fsync", full)
    written = tmp_path / "runs" / "mine" / "attempts" / "1" / "config.yaml"
    expected = told(f"Cannot write {written}", "No space left on device", SPACE_HINT)
    assert kerneltui("launch", "sft", "c.yaml", "--runs-dir", "runs", "--name", "mine") == (1, "", expected)
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_name_that_is_taken_is_told(kerneltui: Command, tmp_path: Path) -> None:
    plan(tmp_path / "c.yaml")
    (tmp_path / "runs" / "mine").mkdir(parents=True)
    expected = told(f"There is already a run 'mine' in {tmp_path}/runs", "Give another name with --name.")
    assert kerneltui("launch", "sft", "c.yaml", "--runs-dir", "runs", "--name", "mine") == (2, "", expected)
    assert list((tmp_path / "runs" / "mine").iterdir()) == []
