"""Which GPUs a plan names, and which the run will see."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kerneltui.facts.server import GpuProcess, MigInstance, Server
from tests.advice.situations import A100, H200, T4, changes, findings, make_server, make_situation

GIB = 1 << 30
DRIVER = "580.159.03"


def part(letter: str, gpu_instance: int, size: int) -> MigInstance:
    return MigInstance(
        uuid=f"MIG-{letter * 4}", name=f"NVIDIA A100 MIG {letter}", gpu_instance=gpu_instance, compute_instance=0,
        memory_total=size * GIB, memory_used=0,
    )  # fmt: skip


def divided(*parts: MigInstance, driver: str = DRIVER, whole: bool = False, **changes: Any) -> Server:
    """A server with an A100 in these parts and, if asked for, a whole one."""
    server = make_server(A100, A100, driver=driver, **changes)
    first, second = server.gpus
    cards = (
        msgspec.structs.replace(first, uuid="GPU-aaaa", mig=True, mig_instances=parts),
        msgspec.structs.replace(second, uuid="GPU-bbbb", mig=False, mig_instances=()),
    )
    return msgspec.structs.replace(server, gpus=cards if whole else cards[:1])


SMALL, LARGE = part("1", 7, 10), part("2", 2, 40)
TWO = divided(SMALL, LARGE)


@pytest.mark.parametrize("facts", [{"gpus": (0,)}, {"given": {"env": {"CUDA_VISIBLE_DEVICES": "0"}}}])
def test_a_number_takes_the_first_part(facts: dict[str, Any]) -> None:
    finding = findings(server=TWO, **facts)["device.divided"]
    assert finding.severity == "warn"
    assert finding.title == "The run would see NVIDIA A100 MIG 1 of GPU 0"
    assert "MIG-2222: NVIDIA A100 MIG 2 of GPU 0, 40 GiB free" in finding.why
    assert changes(finding) == ([] if "gpus" in facts else [{"env": {"CUDA_VISIBLE_DEVICES": "MIG-2222"}}])


def test_a_first_part_that_is_as_good_as_any_is_told_where_a_number_was_meant() -> None:
    server = divided(LARGE, SMALL)
    assert findings(server=server, gpus=(0,))["device.divided"].severity == "note"
    assert "device.divided" not in findings(server=server)
    assert findings(server=TWO)["device.divided"].severity == "warn"


def test_torch_s_count_is_believed() -> None:
    """It was asked under the same variables; what is documented of the driver may not hold."""
    server = divided(LARGE, SMALL, whole=True)
    assert server.torch
    for count, seen in ((1, 1), (2, 2), (9, 3)):
        counted = msgspec.structs.replace(server, torch=msgspec.structs.replace(server.torch, device_count=count))
        assert len(make_situation(server=counted).gpus) == seen


def test_the_run_is_judged_by_its_part() -> None:
    for server, seen in ((TWO, 10), (divided(LARGE, SMALL), 40)):
        (gpu,) = make_situation(server=server, gpus=(0,)).gpus
        assert gpu.memory_total == seen * GIB


def test_a_free_part_is_not_busy_because_another_is() -> None:
    taken = msgspec.structs.replace(LARGE, memory_used=30 * GIB)
    server = divided(SMALL, taken)
    (card,) = server.gpus
    busy = msgspec.structs.replace(card, processes=(GpuProcess(pid=1, user="anna", memory=30 * GIB),))
    server = msgspec.structs.replace(server, gpus=(busy,))
    for name, expected in (("MIG-1", False), ("MIG-2", True)):
        found = findings(server=server, given={"env": {"CUDA_VISIBLE_DEVICES": name}})
        assert ("gpu.busy" in found) == expected


def test_a_part_that_is_named_is_no_surprise() -> None:
    for name in ("MIG-2", "MIG-2222", "MIG-GPU-aaaa/2/0"):
        situation: dict[str, Any] = {"server": TWO, "given": {"env": {"CUDA_VISIBLE_DEVICES": name}}}
        assert not {"device.divided", "device.missing_gpu"} & findings(**situation).keys()
    shell = divided(SMALL, LARGE, environment={"CUDA_VISIBLE_DEVICES": "MIG-2"})
    assert "device.divided" not in findings(server=shell)
    assert "device.divided" not in findings(server=divided(LARGE), gpus=(0,))


def test_a_whole_card_beside_a_divided_one_is_named_rightly() -> None:
    mixed = divided(SMALL, LARGE, whole=True)
    assert [gpu.uuid for gpu in make_situation(server=mixed, gpus=(1,)).gpus] == ["GPU-bbbb"]
    assert "device.divided" not in findings(server=mixed, gpus=(1,))


def test_a_uuid_that_is_not_there() -> None:
    for name in ("MIG-9", "MIG-"):
        finding = findings(server=TWO, given={"env": {"CUDA_VISIBLE_DEVICES": name}})["device.missing_gpu"]
        assert finding.severity == "block"
        assert name in finding.title
        assert "MIG-1111" in finding.why
        assert changes(finding) == [{"env": {"CUDA_VISIBLE_DEVICES": "MIG-2222"}}]
    whole = findings(server=divided(SMALL, whole=True), given={"env": {"CUDA_VISIBLE_DEVICES": "GPU-bbbb,GPU-c"}})
    assert "GPU-c" in whole["device.missing_gpu"].title


def test_parts_of_one_card_together() -> None:
    together = {"env": {"CUDA_VISIBLE_DEVICES": "MIG-1,MIG-2"}}
    finding = findings(server=TWO, given=together, processes=2)["device.parts_together"]
    assert (finding.severity, changes(finding)) == ("warn", [{"num_processes": 1}])
    assert "device.parts_together" not in findings(server=TWO, given=together)
    # An older driver shows one of them alone.
    old = findings(server=divided(SMALL, LARGE, driver="535.1"), given=together, processes=2)
    assert "device.parts_together" not in old
    assert changes(old["device.processes"]) == [{"num_processes": 1}]


class TestOrder:
    """Numbers that mean another card elsewhere."""

    def test_of_the_plan(self) -> None:
        given = {"env": {"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}}
        finding = findings(server=make_server(A100, H200), given=given)["device.order"]
        assert (finding.severity, changes(finding)) == ("warn", [{"env": {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}}])
        assert "device.order" not in findings(server=make_server(H200, H200), given=given)

    def test_of_the_shell(self) -> None:
        variables = {"CUDA_DEVICE_ORDER": "FASTEST_FIRST", "CUDA_VISIBLE_DEVICES": "0"}
        server = make_server(A100, H200, environment=variables)
        assert "GPU 0: NVIDIA A100" in findings(server=server)["device.order"].why
        # Where the plan names the cards itself, it names those of the report.
        assert "device.order" not in findings(server=server, gpus=(0,))
        by_uuid = {**variables, "CUDA_VISIBLE_DEVICES": "GPU-1"}
        assert "device.order" not in findings(server=make_server(A100, T4, environment=by_uuid))
        by_bus = {**variables, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
        assert "device.order" not in findings(server=make_server(A100, H200, environment=by_bus))
