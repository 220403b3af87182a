"""Whatever NVML answers to whichever call, there is a report: the calls are those that the reader really makes."""

from __future__ import annotations

import functools
import os
from typing import Any

import msgspec
import pynvml
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltui.advice.health import judge_server
from kerneltui.facts.devices import join_devices, share_memory
from kerneltui.facts.gpu import GpuSample, Nvml, NvmlReport
from kerneltui.facts.report import report_lines
from kerneltui.facts.server import Gpu
from kerneltui.facts.visible import visible_gpus
from kerneltui.records import from_json, to_json
from kerneltui.runs.live_machine import recorded_machine
from tests.advice.situations import make_server
from tests.facts.fake_nvml import ERROR_CODES, GIB, FakeNvml, gb10, h200, split_h100

# Fields that are None, or false, without a reason: torch's number comes later.
WITHOUT_REASON = {"unavailable", "torch_index", "memory_unified"}

# Told with the help of other values: the order by all PCI ids, the processes of a split card by its parts.
DERIVED = ("index", "processes")


def machine() -> FakeNvml:
    """A card that computes, one that is split, one without memory of its own."""
    computing = h200(processes=[(os.getpid(), 1)], links=(True, False))
    return FakeNvml(computing, split_h100(pci="00000000:AF:00.0", links=()), gb10())


def ask(library: FakeNvml) -> tuple[NvmlReport, tuple[GpuSample, ...]]:
    with Nvml(library) as nvml:
        return nvml.read_gpus(), nvml.sample()


@functools.cache
def calls() -> tuple[str, ...]:
    """Return every call that the reader makes, and those that it falls back on where one is not there."""
    found: list[str] = []
    waiting = [""]
    while waiting:
        library = machine()
        library.fail = {waiting.pop(): pynvml.NVML_ERROR_FUNCTION_NOT_FOUND}
        ask(library)
        new = [call for call in dict.fromkeys(library.calls) if call not in found]
        found += new
        waiting += new
    return tuple(found)


def check(report: NvmlReport, samples: tuple[GpuSample, ...]) -> None:
    """What is missing has a reason, and what is told can be kept."""
    assert report.gpus or report.unavailable["gpus"]
    for name in ("driver", "driver_cuda"):
        assert (getattr(report, name) is None) == (name in report.unavailable)
    instances = [instance for gpu in report.gpus for instance in gpu.mig_instances or ()]
    records: list[Any] = [*report.gpus, *samples, *instances]
    for record in records:
        for field in set(record.__struct_fields__) - WITHOUT_REASON:
            if getattr(record, field) is None:
                assert record.unavailable.get(field) or record.unavailable.get("gpu"), field
    assert len(samples) == len(report.gpus)
    assert from_json(to_json(list(report.gpus)), list[Gpu], "gpus") == list(report.gpus)
    assert from_json(to_json(list(samples)), list[GpuSample], "samples") == list(samples)


def check_all_of_it(report: NvmlReport) -> None:
    """What comes after the reading takes it as well: torch's devices, the findings, the text, the card on screen."""
    devices = (Gpu(torch_index=0, uuid=h200().uuid[4:]), Gpu(torch_index=1, pci=gb10().pci, memory_unified=True))
    joined = join_devices(report.gpus, devices, no_nvml="no NVML", no_torch="no torch")
    gpus = share_memory(joined, 120 * GIB, 100 * GIB)
    assert len(gpus) >= len(report.gpus)
    server = make_server(driver=report.driver, driver_cuda=report.driver_cuda)
    server = msgspec.structs.replace(server, gpus=gpus, unavailable=report.unavailable)
    for devices_named in (None, "0", "GPU-1", "MIG-b", "MIG-GPU-9/2/0"):
        assert len(visible_gpus(gpus, devices_named, driver=report.driver)) <= len(gpus) + 1
    judge_server(server)
    assert all(len(line) <= 80 for line in report_lines(server))
    assert len(recorded_machine(server).gpus) <= len(gpus)


def test_the_calls_are_found() -> None:
    """Also those behind another that fails first, or on a handle that another call gave."""
    assert {
        "nvmlInit", "nvmlDeviceGetName", "nvmlDeviceGetGpuInstanceId", "nvmlDeviceGetCurrentClocksThrottleReasons",
        "nvmlDeviceGetRetiredPagesPendingStatus", "nvmlDeviceGetMarginTemperature", "nvmlShutdown",
    } <= set(calls())  # fmt: skip


@pytest.mark.parametrize("code", ERROR_CODES)
def test_any_single_call_may_fail(code: int) -> None:
    """What is then missing, and was not before, is missing for NVML's own reason."""
    (whole, _), words = ask(machine()), str(pynvml.NVMLError(code)).rstrip(".")
    for call in calls():
        library = machine()
        library.fail[call] = code
        report, samples = ask(library)
        check(report, samples)
        reasons = [dict(gpu.unavailable) for gpu in report.gpus] + [report.unavailable]
        before = [gpu.unavailable for gpu in whole.gpus] + [whole.unavailable]
        if len(report.gpus) == len(whole.gpus):
            for now, then in zip(reasons, before, strict=True):
                new = [reason for field, reason in now.items() if field not in (*then, *DERIVED)]
                assert all(words in reason for reason in new), call


FAULT = st.tuples(st.integers(0, 999), st.sampled_from(ERROR_CODES), st.sampled_from(["", ":0", ":1", ":2"]))


@settings(max_examples=200, deadline=None)
@given(faults=st.lists(FAULT, min_size=2, max_size=2))
def test_any_pair_of_calls_may_fail(faults: list[tuple[int, int, str]]) -> None:
    """A card that nothing happened to is whole."""
    library = machine()
    for number, code, card in faults:
        library.fail[calls()[number % len(calls())] + card] = code
    report, samples = ask(library)
    check(report, samples)
    check_all_of_it(report)
    if all(card in (":1", ":2") for *_, card in faults) and report.gpus:
        (computing,) = [gpu for gpu in report.gpus if gpu.nvml_index == 0]
        assert computing.unavailable.keys() <= {"index"}


def test_a_loss_between_report_and_sample() -> None:
    """What held for the report need not hold a moment later."""
    for call in calls():
        library = machine()
        with Nvml(library) as nvml:
            report = nvml.read_gpus()
            library.fail[call] = pynvml.NVML_ERROR_GPU_IS_LOST
            for samples in (nvml.sample(), nvml.sample()):
                check(report, samples)
