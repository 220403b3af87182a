"""What of the environment goes into a report, and the space on disks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerneltui.facts.host import harmless, read_disks, read_environment


def test_only_variables_that_matter() -> None:
    given_ = {
        "HF_TOKEN": "hf_abcdefghijklmnop",
        "HF_HOME": "/data/hf",
        "NCCL_P2P_DISABLE": "1",
        "AWS_SECRET_ACCESS_KEY": "x",
        "CUDA_VISIBLE_DEVICES": "",
        "PATH": "/bin",
    }
    expected = {"CUDA_VISIBLE_DEVICES": "", "HF_HOME": "/data/hf", "NCCL_P2P_DISABLE": "1"}
    assert read_environment(given_) == expected


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("https://user:password@mirror.example/hf", "https://mirror.example/hf"),
        ("https://user:p@ss/word@mirror.example", "https://mirror.example"),
        ("https://token@mirror.example:8443/", "https://mirror.example:8443/"),
        ("https://mirror.example", "https://mirror.example"),
        ("https://mirror.example/?token=hf_abcdefghijkl", "https://mirror.example/?token=hf_…"),
        ("org/kernel=/home/me/kernel:org/b=/x", "org/kernel=/home/me/kernel:org/b=/x"),
        ("0,1\x1b[31m", "0,1"),
    ],
)
def test_values_are_harmless(value: str, shown: str) -> None:
    assert harmless(value) == shown


@given(st.text("abcXYZ012:/@!$&'()*+,;=%-._~", max_size=40))
def test_no_password_stays(password: str) -> None:
    secret = f"S3cret{password}"
    assert "S3cret" not in harmless(f"https://user:{secret}@mirror.example/hf")


def test_a_directory_that_is_not_there_yet_lies_on_its_parent_s_disk(tmp_path: Path) -> None:
    unavailable: dict[str, str] = {}
    disks = {disk.purpose: disk for disk in read_disks(tmp_path / "a" / "b", unavailable)}
    assert set(disks) == {"runs", "cache"}
    assert disks["runs"].path == str(tmp_path / "a" / "b")
    assert 0 <= disks["runs"].free <= disks["runs"].total
    assert unavailable == {}


def test_a_disk_that_cannot_be_asked_has_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise OSError(5, os.strerror(5))

    monkeypatch.setattr("shutil.disk_usage", refuse)
    unavailable: dict[str, str] = {}
    assert read_disks(tmp_path, unavailable) == ()
    assert unavailable["disks.runs"] == f"{tmp_path}: Input/output error"
