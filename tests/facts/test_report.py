"""The report as plain lines: it says what is there, and for what is not, why."""

from __future__ import annotations

from typing import Any

import pytest

from kerneltui.facts.gpu import Nvml
from kerneltui.facts.report import report_lines
from kerneltui.facts.server import Disk, Libraries, Package, Server, Stay, Torch
from tests.facts.fake_nvml import GIB, FakeGpu, FakeNvml, gb10, h200
from tests.servers import NAMES, recorded


def server(*gpus: FakeGpu, **values: Any) -> Server:
    report = Nvml(FakeNvml(*gpus)).read_gpus()
    defaults: dict[str, Any] = {
        "time": "2026-12-01T10:00:00.000+00:00",
        "hostname": "gpu-7",
        "system": "Linux",
        "machine": "x86_64",
        "python": "3.12.3",
        "interpreter": "/opt/venv/bin/python",
        "cores": 16,
        "memory_total": 128 * GIB,
        "driver": report.driver,
        "driver_cuda": report.driver_cuda,
        "gpus": report.gpus,
        "unavailable": report.unavailable,
    }
    return Server(**{**defaults, **values})


def text(server: Server, **options: Any) -> str:
    return "\n".join(report_lines(server, **{"width": 500, **options}))


def test_a_gpu_with_all_its_values() -> None:
    lines = report_lines(server(h200(used=70 * GIB)))
    row = next(line for line in lines if "NVIDIA H200" in line)
    assert row.split() == ["0", "NVIDIA", "H200", "70.0", "140.4", "7", "77", "31"]
    assert any("580.159.03 · CUDA 13.0" in line for line in lines)
    assert lines[0].endswith("gpu-7 · Linux x86_64")
    assert lines[1].strip() == "16 cores · 128.0 GiB memory"


def test_values_that_are_missing_show_why() -> None:
    shown = text(server(gb10()))
    assert "– " in next(line for line in shown.splitlines() if "GB10" in line)
    note = next(line for line in shown.splitlines() if "Not Supported" in line)
    assert "memory total" in note
    assert "ECC errors" in note


def test_no_gpu_no_torch_no_packages() -> None:
    shown = text(server(unavailable={"gpus": "Driver Not Loaded", "torch": "No module named 'torch'"}))
    assert "· GPUs not available: Driver Not Loaded" in shown
    assert "· torch not available: No module named 'torch'" in shown
    assert "none of the training packages is installed" in shown


def test_torch_packages_tables_and_disks() -> None:
    shown = text(
        server(
            torch=Torch(
                version="2.11.0+cu130",
                cuda="13.0",
                cxx11_abi=True,
                arch_list=("sm_90",),
                device_count=1,
                bf16=True,
            ),
            packages={"torch": Package(version="2.11.0"), "trl": Package(version="1.16.0", error="broken")},
            libraries=Libraries(
                kernels_minimum="0.17.2",
                kernels_maximum="0.18.0",
                attention_versions={"kernels-community/flash-attn2": 4},
                attention_fallbacks={
                    "flash_attention_2": "kernels-community/flash-attn2",
                    "flash_attention_3": "a/b",
                },
                flash_packages={"flash_attention_2": False, "flash_attention_3": True},
                trainers=("dpo", "sft"),
            ),
            environment={"HF_HUB_OFFLINE": "1"},
            disks=(Disk(purpose="runs", path="/data/runs", free=5 * GIB, total=9 * GIB),),
            unavailable={"disks.cache": "/cache: Input/output error"},
        )
    )
    for part in (
        "2.11.0+cu130 · CUDA 13.0 · C++11 ABI on · 1 device · bf16 yes",
        "✖ does not import: broken",
        "kernels 0.17.2 to below 0.18.0",
        "flash_attention_2 → kernels-community/flash-attn2 v4",
        "flash_attention_3: its own package",
        "trainers: dpo sft",
        "HF_HUB_OFFLINE=1",
        "5.0 of      9.0 GiB free  /data/runs",
        "/cache: Input/output error",
    ):
        assert part in shown


def test_a_branch_is_not_made_up_when_the_table_is_missing() -> None:
    libraries = Libraries(attention_fallbacks={"flash_attention_2": "a/b"})
    assert "flash_attention_2 → a/b (its own" in text(server(libraries=libraries))


@pytest.mark.parametrize("ascii_only", [False, True])
def test_only_harmless_characters_reach_the_terminal(ascii_only: bool) -> None:
    evil = "\x1b]0;title\x07\x1b[31mGPU\r\n\u202eé–"
    shown = report_lines(server(h200(name=evil), hostname=evil, unavailable={"torch": evil}), ascii_only=ascii_only)
    assert all(line.isprintable() for line in shown)
    assert not ascii_only or all(line.isascii() for line in shown)


def test_what_decides_on_health_is_shown() -> None:
    shown = text(recorded("h100-mig"))
    for part in (
        "clock 345 of 1980 MHz · memory clock 2619 of 2619 MHz · power limit 700 W · slows down at 85 °C",
        "ECC on · persistence on · MIG on · compute mode default · 18 NVLinks",
        "part MIG-00000001-1111-5222-8333-0123456789ab · NVIDIA H100 80GB HBM3 MIG 2g.20gb · 0.0 of 19.6 GiB",
        "ECC errors not available: Insufficient Permissions",
        "cuDNN 9.15.1",
        "compiler /usr/bin/gcc",
        "answers in 0.21 s · has kernel repositories · token of someone (from a file)",
        "logout spares processes",
    ):
        assert part in shown
    busy = text(recorded("eight-a100-two-busy"))
    assert "process 4002 · alice · python train.py · 71.0 GiB" in busy
    assert "slowed by power cap" in busy


def test_limits_of_a_container_or_a_job() -> None:
    shown = text(server(cpu_quota=1.5, memory_limit=4 * GIB, stay=Stay(container="docker", slurm_job="7")))
    assert "time of 1.5 cores" in shown
    assert "limit 4.0 GiB" in shown
    assert "in a container (docker) · in Slurm job 7" in shown


@pytest.mark.parametrize("name", NAMES)
def test_the_report_fits_a_terminal_of_80_columns(name: str) -> None:
    for line in report_lines(recorded(name)):
        assert len(line) <= 80


def test_a_word_that_is_longer_than_a_line_stays_whole() -> None:
    path = "/data/" + "x" * 100
    lines = report_lines(server(interpreter=path))
    assert any(line.strip() == path for line in lines)
