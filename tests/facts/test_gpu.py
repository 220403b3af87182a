"""The NVML reader against a stand-in module: values, failures of any call, losses."""

from __future__ import annotations

import os
import platform
import sys
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from kerneltui.facts.gpu import SAMPLES_BETWEEN_TRIES, Nvml
from kerneltui.facts.nvml_values import describe_process
from tests.facts.fake_nvml import CALLS, GIB, MIB, FakeGpu, FakeNvml, gb10, h200, split_h100


def two_gpus() -> FakeNvml:
    """Two cards whose order in NVML is not their order on the bus."""
    return FakeNvml(
        h200(uuid="GPU-b", pci="00000000:AF:00.0", used=2 * GIB), h200(uuid="GPU-a", pci="00000000:3B:00.0")
    )


def test_one_h200_is_read_in_full() -> None:
    with Nvml(FakeNvml(h200())) as nvml:
        report = nvml.read_gpus()
    assert (report.driver, report.driver_cuda, report.unavailable) == ("580.159.03", "13.0", {})
    (gpu,) = report.gpus
    assert (gpu.name, gpu.capability, gpu.index, gpu.nvml_index) == ("NVIDIA H200", (9, 0), 0, 0)
    assert (gpu.memory_total, gpu.memory_used, gpu.memory_reserved) == (143771 * MIB, 0, 615 * MIB)
    assert (gpu.power, gpu.power_limit, gpu.temperature, gpu.utilization) == (76.543, 700.0, 31, 7)
    assert (gpu.mig, gpu.ecc_errors, gpu.throttle, gpu.processes) == (False, 0, (), ())
    assert (gpu.clock, gpu.clock_limit, gpu.memory_clock, gpu.memory_clock_limit) == (1980, 1980, 3201, 3201)
    assert (gpu.temperature_limit, gpu.ecc, gpu.remap_pending, gpu.remap_failed) == (87, True, False, False)
    assert (gpu.persistence, gpu.compute_mode, gpu.nvlinks) == (True, "default", 18)
    assert (gpu.mig_instances, gpu.memory_unified) == ((), False)
    assert gpu.unavailable == {}


def test_gpus_come_in_the_order_of_the_bus() -> None:
    with Nvml(two_gpus()) as nvml:
        gpus = nvml.read_gpus().gpus
        samples = nvml.sample()
    assert [(gpu.uuid, gpu.index, gpu.nvml_index) for gpu in gpus] == [("GPU-a", 0, 1), ("GPU-b", 1, 0)]
    assert [(sample.uuid, sample.index) for sample in samples] == [("GPU-a", 0), ("GPU-b", 1)]


def test_without_all_pci_ids_the_order_is_not_claimed() -> None:
    nvml = two_gpus()
    nvml.fail["nvmlDeviceGetPciInfo:1"] = pynvml.NVML_ERROR_UNKNOWN
    gpus = Nvml(nvml).read_gpus().gpus
    assert [gpu.index for gpu in gpus] == [None, None]
    assert all("PCI" in gpu.unavailable["index"] for gpu in gpus)


@pytest.mark.parametrize("text", ["garbage", "", b"00000000:3B:00.0"])
def test_a_pci_id_of_an_unexpected_form(text: Any) -> None:
    (gpu,) = Nvml(FakeNvml(h200(pci=text))).read_gpus().gpus
    assert gpu.index == 0
    assert gpu.pci == "00000000:3B:00.0" if isinstance(text, bytes) else "pci" in gpu.unavailable


def test_unified_memory_is_not_zero_but_unknown() -> None:
    (gpu,) = Nvml(FakeNvml(gb10())).read_gpus().gpus
    assert (gpu.name, gpu.capability) == ("NVIDIA GB10", (12, 1))
    for field in (
        "memory_total",
        "memory_used",
        "memory_free",
        "memory_reserved",
        "ecc_errors",
        "power_limit",
    ):
        assert getattr(gpu, field) is None
        assert gpu.unavailable[field] == "Not Supported"
    assert gpu.temperature == 31
    assert gpu.memory_unified


@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_NO_PERMISSION, pynvml.NVML_ERROR_UNKNOWN])
def test_memory_that_is_not_told_for_another_reason_is_not_taken_for_unified(code: int) -> None:
    library = FakeNvml(h200())
    library.fail["nvmlDeviceGetMemoryInfo"] = code
    (gpu,) = Nvml(library).read_gpus().gpus
    assert (gpu.memory_total, gpu.memory_unified) == (None, False)


def test_a_split_card_has_its_parts_with_their_own_memory() -> None:
    (gpu,) = Nvml(FakeNvml(split_h100())).read_gpus().gpus
    assert gpu.mig
    large, small = gpu.mig_instances or ()
    assert (large.uuid, large.name) == ("MIG-bbbbbbbb-1111-2222-3333-444444444444", "NVIDIA H100 80GB HBM3 MIG 3g.40gb")
    assert (large.gpu_instance, large.compute_instance) == (2, 0)
    assert (large.memory_total, large.memory_used) == (40448 * MIB, 3 * GIB)
    assert (small.gpu_instance, small.memory_total, small.unavailable) == (7, 9856 * MIB, {})
    assert gpu.unavailable.pop("memory_total") == "Insufficient Permissions"
    assert not gpu.memory_unified


def test_processes_of_the_parts_are_the_cards_too() -> None:
    (gpu,) = Nvml(FakeNvml(split_h100())).read_gpus().gpus
    assert [(process.pid, process.memory) for process in gpu.processes or ()] == [(2**22 + 1, 3 * GIB)]
    assert "processes" not in gpu.unavailable


def test_a_part_that_fails_leaves_the_others() -> None:
    class Failing(FakeNvml):
        def _check(self, name: str, arguments: tuple[Any, ...]) -> None:
            super()._check(name, arguments)
            if name == "nvmlDeviceGetMigDeviceHandleByIndex" and arguments[1] == 0:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_UNKNOWN)

    (gpu,) = Nvml(Failing(split_h100())).read_gpus().gpus
    assert [instance.gpu_instance for instance in gpu.mig_instances or ()] == [7]
    assert gpu.unavailable["mig_instances"] == "Unknown Error"


def test_an_unwell_card() -> None:
    card = h200(remapped=(0, 9, 1, 1), ecc_errors=3, compute_mode=3, persistence=False, links=(True, False, True))
    (gpu,) = Nvml(FakeNvml(card)).read_gpus().gpus
    assert (gpu.remap_pending, gpu.remap_failed, gpu.ecc_errors) == (True, True, 3)
    assert (gpu.compute_mode, gpu.persistence, gpu.nvlinks) == ("exclusive process", False, 2)


def test_a_card_without_nvlink() -> None:
    (gpu,) = Nvml(FakeNvml(h200(links=()))).read_gpus().gpus
    assert (gpu.nvlinks, gpu.unavailable) == (None, {"nvlinks": "Not Supported"})


def test_a_card_from_before_ampere_retires_pages() -> None:
    old = frozenset({"nvmlDeviceGetRemappedRows", "nvmlDeviceGetMigMode"})
    (gpu,) = Nvml(FakeNvml(h200(remapped=(0, 0, 1, 0), unsupported=old))).read_gpus().gpus
    assert (gpu.remap_pending, gpu.remap_failed, gpu.mig, gpu.mig_instances) == (True, None, None, ())
    assert gpu.unavailable == {"remap_failed": "Not Supported", "mig": "Not Supported"}


def test_the_limit_of_the_temperature_where_there_are_no_thresholds() -> None:
    library = FakeNvml(h200(unsupported=frozenset({"nvmlDeviceGetTemperatureThreshold"})))
    (gpu,) = Nvml(library).read_gpus().gpus
    assert (gpu.temperature, gpu.temperature_limit) == (31, 87)


def test_the_reason_is_that_of_a_call_that_the_driver_has() -> None:
    library = FakeNvml(h200())
    library.fail["nvmlDeviceGetCurrentClocksEventReasons"] = pynvml.NVML_ERROR_NO_PERMISSION
    library.fail["nvmlDeviceGetCurrentClocksThrottleReasons"] = pynvml.NVML_ERROR_FUNCTION_NOT_FOUND
    assert Nvml(library).read_gpus().gpus[0].unavailable == {"throttle": "Insufficient Permissions"}


def test_of_unified_memory_a_sample_tells_what_the_host_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    import psutil

    memory = SimpleNamespace(total=120 * GIB, available=100 * GIB)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
    with Nvml(FakeNvml(gb10(), h200(used=GIB, pci="0000000F:02:00.0"))) as nvml:
        assert [sample.memory_used for sample in nvml.sample()] == [20 * GIB, GIB]


def test_zero_bytes_of_memory_are_not_believed() -> None:
    (gpu,) = Nvml(FakeNvml(h200(total=0, reserved=0))).read_gpus().gpus
    assert gpu.memory_total is gpu.memory_used is None
    assert "0 bytes" in gpu.unavailable["memory_total"]


def test_an_old_driver_has_the_first_memory_call_only() -> None:
    nvml = FakeNvml(h200(used=GIB))
    nvml.raises["nvmlDeviceGetMemoryInfo"] = TypeError("got an unexpected keyword argument 'version'")
    assert Nvml(nvml).read_gpus().gpus[0].memory_total is None

    class Old(FakeNvml):
        def __getattr__(self, name: str) -> Any:
            if name == "nvmlMemory_v2":
                raise AttributeError("module 'pynvml' has no attribute 'nvmlMemory_v2'")
            return super().__getattr__(name)

    (gpu,) = Nvml(Old(h200(used=GIB))).read_gpus().gpus
    assert (gpu.memory_used, gpu.memory_reserved) == (GIB + 615 * MIB, None)
    assert "nvmlMemory_v2" in gpu.unavailable["memory_reserved"]
    assert "memory_used" not in gpu.unavailable


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (
            pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
            ["RM has detected an NVML/RM version mismatch", "reboot"],
        ),
        (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, ["NVML Shared Library Not Found", "no NVIDIA driver"]),
        (pynvml.NVML_ERROR_DRIVER_NOT_LOADED, ["Driver Not Loaded", "modprobe nvidia"]),
        (pynvml.NVML_ERROR_UNKNOWN, ["Unknown Error", "restart the container"]),
        (pynvml.NVML_ERROR_OPERATING_SYSTEM, ["The operating system has blocked the request", "WSL"]),
        (pynvml.NVML_ERROR_NO_PERMISSION, ["Insufficient Permissions", "/dev/nvidia"]),
    ],
)
@pytest.mark.parametrize("call", ["nvmlInit", "nvmlDeviceGetCount"])
def test_nvml_that_does_not_start_says_why(call: str, code: int, says: list[str]) -> None:
    library = FakeNvml(h200())
    library.fail[call] = code
    nvml = Nvml(library)
    report = nvml.read_gpus()
    assert (len(report.gpus), len(nvml.sample())) == (0, 0)
    assert report.driver is report.driver_cuda is None
    for text in says:
        assert text in report.unavailable["gpus"]
    assert nvml.reason == report.unavailable["gpus"] == report.unavailable["driver"]


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, "install no Linux driver"),
        (pynvml.NVML_ERROR_DRIVER_NOT_LOADED, "Windows"),
    ],
)
def test_under_wsl_the_driver_is_that_of_windows(monkeypatch: pytest.MonkeyPatch, code: int, says: str) -> None:
    monkeypatch.setattr(platform, "release", lambda: "5.15.167.4-microsoft-standard-WSL2")
    library = FakeNvml(h200())
    library.fail["nvmlInit"] = code
    reason = Nvml(library).read_gpus().unavailable["gpus"]
    assert says in reason
    assert "modprobe" not in reason


def test_a_gpu_that_cannot_be_reached_says_what_to_do() -> None:
    library = two_gpus()
    library.fail["nvmlDeviceGetHandleByIndex:1"] = pynvml.NVML_ERROR_GPU_IS_LOST
    healthy, gone = sorted(Nvml(library).read_gpus().gpus, key=lambda gpu: gpu.nvml_index or 0)
    assert healthy.temperature == 31
    assert gone.unavailable["gpu"].startswith("GPU is lost: it has fallen off the bus")


def test_the_real_binding_without_a_library(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(pynvml, "CDLL", missing)
    with Nvml() as nvml:
        assert nvml.read_gpus().unavailable["gpus"].startswith("NVML Shared Library Not Found: ")


def test_without_the_binding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert "nvidia-ml-py does not import" in Nvml().read_gpus().unavailable["gpus"]


def test_a_driver_without_gpus() -> None:
    report = Nvml(FakeNvml()).read_gpus()
    assert (report.driver, report.unavailable) == ("580.159.03", {"gpus": "the driver lists no GPU"})


@pytest.mark.parametrize(
    "error", [OSError("gone"), UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"), ValueError()]
)
def test_other_errors_of_the_binding_are_reasons_too(error: Exception) -> None:
    library = FakeNvml(h200())
    library.raises["nvmlDeviceGetName"] = error
    (gpu,) = Nvml(library).read_gpus().gpus
    assert gpu.name is None
    assert gpu.unavailable["name"]
    assert gpu.temperature == 31


def test_throttle_reasons_are_words() -> None:
    mask = pynvml.nvmlClocksThrottleReasonSwPowerCap | pynvml.nvmlClocksThrottleReasonHwThermalSlowdown | 1 << 40
    library = FakeNvml(h200(throttle=mask))
    words = ("power cap", "thermal slowdown by the hardware", "reason 0x10000000000")
    with Nvml(library) as nvml:
        assert nvml.read_gpus().gpus[0].throttle == words
        assert nvml.sample()[0].throttle == words
        library.gpus[0].throttle = pynvml.nvmlClocksThrottleReasonGpuIdle
        assert nvml.sample()[0].throttle == ()


def test_an_older_driver_has_the_older_name_of_throttle_reasons() -> None:
    library = FakeNvml(h200(throttle=pynvml.nvmlClocksThrottleReasonSyncBoost))
    library.fail["nvmlDeviceGetCurrentClocksEventReasons"] = pynvml.NVML_ERROR_FUNCTION_NOT_FOUND
    (gpu,) = Nvml(library).read_gpus().gpus
    assert gpu.throttle == ("sync boost",)
    assert gpu.unavailable == {}


def test_processes_have_user_and_command_where_visible() -> None:
    unseen = 2**22 + 1  # above the largest number that Linux gives
    library = FakeNvml(h200(processes=[(unseen, None), (os.getpid(), 3 * GIB)]))
    first, second = Nvml(library).read_gpus().gpus[0].processes or ()
    assert (first.pid, first.memory) == (os.getpid(), 3 * GIB)
    assert first.user
    assert first.command
    assert (second.pid, second.memory, second.user, second.command) == (unseen, None, None, None)


def test_the_arguments_of_a_process_stay_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import psutil

    shown = {
        ("/usr/bin/python3", "/home/a/train.py", "--hub_token", "hf_secret"): "python3 train.py",
        ("/usr/bin/python3", "-m", "trl.scripts.sft", "--hub_token=hf_secret"): "python3 -m trl.scripts.sft",
        ("/usr/bin/python3", "--token", "hf_secret"): "python3",
        ("evil\x1b]0;title\x07name",): "evilname",
    }
    for arguments, command in shown.items():
        monkeypatch.setattr(psutil.Process, "cmdline", lambda _, given=arguments: list(given))
        assert describe_process(os.getpid(), None).command == command


class TestLoss:
    """What is there may go, and may come back."""

    def test_sampling_does_not_start_nvml_again(self) -> None:
        library = FakeNvml(h200())
        with Nvml(library) as nvml:
            for _ in range(20):
                nvml.sample()
        assert library.calls.count("nvmlInit") == 1
        assert library.started == 0

    def test_a_value_that_is_not_supported_is_no_loss(self) -> None:
        library = FakeNvml(gb10())
        with Nvml(library) as nvml:
            samples = [nvml.sample()[0] for _ in range(5)]
        assert library.calls.count("nvmlInit") == 1
        assert all(set(sample.unavailable) <= {"ecc_errors"} for sample in samples)

    def test_a_sample_asks_only_for_what_a_moment_changes(self) -> None:
        library = FakeNvml(split_h100(), h200(pci="00000000:AF:00.0"))
        with Nvml(library) as nvml:
            nvml.sample()
            library.calls.clear()
            nvml.sample()
        assert set(library.calls) - {"nvmlShutdown"} == {
            "nvmlDeviceGetUtilizationRates", "nvmlDeviceGetPowerUsage", "nvmlDeviceGetTemperature",
            "nvmlDeviceGetClockInfo", "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetMemoryInfo",
            "nvmlDeviceGetTotalEccErrors",
        }  # fmt: skip

    @pytest.mark.parametrize("code", [pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_UNKNOWN])
    def test_a_lost_gpu_is_a_gap_and_comes_back(self, code: int) -> None:
        library = two_gpus()
        nvml = Nvml(library)
        assert nvml.sample()[1].temperature == 31
        library.fail = {f"{call}:0": code for call in CALLS if "DeviceGet" in call}
        library.fail["nvmlDeviceGetHandleByIndex:0"] = code
        lost = [nvml.sample() for _ in range(3)]
        for healthy, gone in lost:
            assert (healthy.uuid, healthy.temperature) == ("GPU-a", 31)
            assert (gone.uuid, gone.index, gone.temperature) == ("GPU-b", 1, None)
            assert all(str(pynvml.NVMLError(code)).rstrip(".") in reason for reason in gone.unavailable.values())
        library.fail = {}
        after = [nvml.sample()[1] for _ in range(SAMPLES_BETWEEN_TRIES + 1)]
        assert (after[-1].uuid, after[-1].index, after[-1].temperature) == ("GPU-b", 1, 31)
        assert after[-1].unavailable == {}

    def test_a_gpu_off_the_bus_keeps_its_place(self) -> None:
        library = two_gpus()
        nvml = Nvml(library)
        nvml.sample()
        lost = library.gpus.pop(1)
        library.fail["nvmlDeviceGetTemperature"] = pynvml.NVML_ERROR_GPU_IS_LOST
        nvml.sample()
        library.fail = {}
        first, second = nvml.sample()
        assert (first.uuid, first.index, first.unavailable) == (
            lost.uuid,
            0,
            {"gpu": "the driver no longer lists it"},
        )
        assert (second.uuid, second.index, second.temperature) == ("GPU-b", 1, 31)

    def test_nvml_is_not_tried_at_every_sample(self) -> None:
        library = FakeNvml(h200())
        nvml = Nvml(library)
        nvml.sample()
        library.fail = dict.fromkeys(CALLS, pynvml.NVML_ERROR_UNKNOWN)
        samples = [nvml.sample()[0] for _ in range(2 * SAMPLES_BETWEEN_TRIES)]
        assert library.calls.count("nvmlInit") <= 4
        assert samples[-1].index == 0
        assert "Unknown Error" in samples[-1].unavailable["gpu"]
        assert "restart the container" in (nvml.reason or "")
        library.fail = {}
        assert any(nvml.sample()[0].temperature == 31 for _ in range(SAMPLES_BETWEEN_TRIES + 1))
        assert nvml.reason is None

    def test_gpus_are_found_when_the_driver_comes_late(self) -> None:
        library = FakeNvml(FakeGpu())
        library.fail["nvmlInit"] = pynvml.NVML_ERROR_DRIVER_NOT_LOADED
        nvml = Nvml(library)
        assert nvml.sample() == ()
        library.fail = {}
        assert any(nvml.sample() for _ in range(SAMPLES_BETWEEN_TRIES + 1))
