"""Recorded servers with the right findings and no others."""

from __future__ import annotations

import msgspec
import pytest

from kerneltui.advice.health import judge_server
from kerneltui.advice.show import finding_lines
from kerneltui.facts.report import report_lines
from kerneltui.facts.server import Gpu, Server
from tests.servers import NAMES, recorded

RIGHT = {
    "no-gpu": {"gpu.none": "warn"},
    "h200": {},
    "eight-a100-two-busy": {"gpu.busy": "note", "gpu.several": "note"},
    "t4": {"gpu.before_ampere": "note"},
    "v100": {"device.architecture": "block", "gpu.before_ampere": "note"},
    "rtx-5090-cu126": {"device.architecture": "block"},
    "b200": {},
    "gb10": {"gpu.unified": "note"},
    "h100-mig": {"gpu.mig": "note"},
    "mixed": {"gpu.several": "note", "gpu.mixed": "note"},
    "driver-mismatch": {"driver.mismatch": "block"},
    "nvml-missing": {"driver.no_nvml": "warn", "session.container": "note"},
    "container-lost-gpu": {"driver.lost": "block", "session.container": "note"},
    "wsl": {},
    "rocm": {},
    "mac": {},
}


def default_of(field: msgspec.structs.FieldInfo) -> object:
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()


def severities(server: Server) -> dict[str, str]:
    return {finding.id: finding.severity for finding in judge_server(server)}


@pytest.mark.parametrize("name", NAMES)
def test_the_right_findings_and_no_others(name: str) -> None:
    assert severities(recorded(name)) == RIGHT[name]


def test_every_recorded_server_has_its_findings_written_down() -> None:
    assert sorted(RIGHT) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_each_says_why_and_where_that_can_be_read(name: str) -> None:
    for finding in judge_server(recorded(name)):
        assert finding.title
        assert finding.why
        assert finding.source
        if finding.severity == "block":
            assert finding.fixes


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("v100", "/opt/train/bin/python -m pip install --force-reinstall torch --index-url {}/cu126"),
        (
            "rtx-5090-cu126",
            "uv pip install --python /opt/train/bin/python --force-reinstall torch --index-url {}/cu130",
        ),
    ],
)
def test_the_torch_that_has_code_for_the_card(name: str, command: str) -> None:
    (finding,) = [it for it in judge_server(recorded(name)) if it.severity == "block"]
    assert [fix.command for fix in finding.fixes] == [command.format("https://download.pytorch.org/whl")]


def test_who_uses_which_cards_and_which_are_free() -> None:
    (finding,) = [it for it in judge_server(recorded("eight-a100-two-busy")) if it.id == "gpu.busy"]
    assert finding.title == "GPUs 2, 5 are in use by alice"
    assert finding.why.splitlines() == [
        "GPU 2: 71 GiB of 80 GiB, 99 %: alice's python train.py 71 GiB",
        "GPU 5: 71 GiB of 80 GiB, 99 %: alice's python train.py 71 GiB",
        "Free: GPUs 0, 1, 3, 4, 6, 7.",
    ]


def test_findings_fit_a_narrow_terminal_but_for_what_is_copied() -> None:
    for name in NAMES:
        for line in finding_lines(judge_server(recorded(name)), width=80):
            assert len(line) <= 80 or line.strip().startswith(("$ ", "source:")), line


@pytest.mark.parametrize("name", NAMES)
def test_what_a_card_does_not_tell_is_no_finding(name: str) -> None:
    server = recorded(name)
    known = {*severities(server), "gpu.bf16"}  # which torch tells where the capability is not known
    for field in msgspec.structs.fields(Gpu):
        if field.default is None:
            gpus = tuple(msgspec.structs.replace(gpu, **{field.name: None}) for gpu in server.gpus)
            silent = msgspec.structs.replace(server, gpus=gpus)
            assert set(severities(silent)) <= known, field.name
            assert report_lines(silent)


@pytest.mark.parametrize("name", NAMES)
def test_what_a_server_does_not_tell_never_makes_a_report_fail(name: str) -> None:
    server = recorded(name)
    for field in msgspec.structs.fields(Server):
        if not field.required:
            silent = msgspec.structs.replace(server, **{field.name: default_of(field)})
            assert all(finding.why for finding in judge_server(silent))
            assert report_lines(silent)
