"""NVML's GPUs and torch's devices become one record a card."""

from __future__ import annotations

from kerneltui.facts.devices import join_devices, share_memory
from kerneltui.facts.gpu import Nvml
from kerneltui.facts.server import Gpu
from tests.facts.fake_nvml import GIB, FakeNvml, gb10, h200, split_h100

NO_NVML = "NVML Shared Library Not Found"
NO_TORCH = "torch does not see it under CUDA_VISIBLE_DEVICES=1"


def nvml_gpus(*gpus: object) -> tuple[Gpu, ...]:
    return Nvml(FakeNvml(*gpus)).read_gpus().gpus  # type: ignore[arg-type]


def join(gpus: tuple[Gpu, ...], *devices: Gpu, limited: bool = False) -> tuple[Gpu, ...]:
    return join_devices(gpus, devices, no_nvml=NO_NVML, no_torch=NO_TORCH, limited=limited)


TWO = (h200(uuid="GPU-AAAA", pci="00000000:3B:00.0"), h200(uuid="GPU-bbbb", pci="00000000:AF:00.0"))


def test_by_uuid_whatever_the_order() -> None:
    joined = join(nvml_gpus(*TWO), Gpu(torch_index=0, uuid="bbbb"), Gpu(torch_index=1, uuid="aaaa"))
    assert [(gpu.index, gpu.torch_index, gpu.uuid) for gpu in joined] == [
        (0, 1, "GPU-AAAA"),
        (1, 0, "GPU-bbbb"),
    ]
    assert all(not gpu.unavailable for gpu in joined)


def test_by_pci_where_the_uuid_is_that_of_a_mig_part() -> None:
    first, second = join(nvml_gpus(*TWO), Gpu(torch_index=0, uuid="MIG-1", pci="00000000:AF:00.0"), limited=True)
    assert (first.torch_index, second.torch_index) == (None, 0)
    assert first.unavailable == {"torch_index": NO_TORCH}


def test_by_position_for_a_torch_that_names_no_card() -> None:
    devices = Gpu(torch_index=0, name="NVIDIA H200"), Gpu(torch_index=1, name="NVIDIA H200")
    assert [gpu.torch_index for gpu in join(nvml_gpus(*TWO), *devices)] == [0, 1]
    # With hidden GPUs torch's numbers are not those of the machine: nothing is claimed.
    assert [gpu.torch_index for gpu in join(nvml_gpus(*TWO), *devices, limited=True)][:2] == [None, None]


def test_torch_fills_what_nvml_does_not_tell() -> None:
    (before,) = nvml_gpus(gb10())
    (gpu,) = join((before,), Gpu(torch_index=0, pci="0000000F:01:00.0", memory_total=119 * GIB))
    assert gpu.memory_total == 119 * GIB
    assert "memory_total" not in gpu.unavailable
    assert (gpu.memory_used, gpu.unavailable["memory_used"]) == (None, "Not Supported")


def test_nvml_is_not_overruled() -> None:
    (gpu,) = join(nvml_gpus(h200()), Gpu(torch_index=0, uuid=h200().uuid[4:], name="other", memory_total=1))
    assert gpu.name == "NVIDIA H200"
    assert gpu.memory_total != 1


def test_an_amd_machine_is_known_from_torch_alone() -> None:
    device = Gpu(torch_index=0, name="AMD Instinct MI300X", memory_total=192 * GIB)
    (gpu,) = join((), device)
    assert (gpu.index, gpu.name, gpu.memory_total) == (0, "AMD Instinct MI300X", 192 * GIB)
    assert gpu.unavailable["memory_used"] == gpu.unavailable["temperature"] == NO_NVML
    (hidden,) = join((), device, limited=True)
    assert hidden.index is None
    assert hidden.unavailable["index"]


def test_every_missing_value_has_its_reason() -> None:
    for gpu in join(nvml_gpus(gb10()), Gpu(torch_index=3, name="another")):
        missing = [name for name in gpu.__struct_fields__ if getattr(gpu, name) is None]
        assert set(missing) <= gpu.unavailable.keys()


def test_of_a_divided_card_torch_knows_parts() -> None:
    """Their names and memory are not those of the card, and several parts are one card."""
    pci = "00000000:AF:00.0"
    parts = [Gpu(torch_index=n, uuid=f"{n}", pci=pci, name="… MIG 1g.10gb", memory_total=9 * GIB) for n in range(2)]
    (gpu,) = join(nvml_gpus(split_h100(pci=pci)), *parts)
    assert (gpu.torch_index, gpu.name, gpu.memory_total) == (0, "NVIDIA H100 80GB HBM3", None)
    assert gpu.unavailable["memory_total"] == "Insufficient Permissions"


class TestUnifiedMemory:
    """A GPU without memory of its own has the system's, as far as torch did not tell more."""

    def test_the_systems(self) -> None:
        (gpu,) = share_memory(nvml_gpus(gb10()), 120 * GIB, 100 * GIB)
        assert (gpu.memory_total, gpu.memory_free, gpu.memory_used) == (120 * GIB, 100 * GIB, 20 * GIB)
        assert gpu.memory_unified
        assert not {"memory_total", "memory_free", "memory_used"} & gpu.unavailable.keys()

    def test_the_total_of_torch_comes_first(self) -> None:
        joined = join(nvml_gpus(gb10()), Gpu(torch_index=0, pci="0000000F:01:00.0", memory_total=119 * GIB))
        (gpu,) = share_memory(joined, 120 * GIB, 119 * GIB + 1)
        assert (gpu.memory_total, gpu.memory_free, gpu.memory_used) == (119 * GIB, 119 * GIB, 0)

    def test_torch_may_know_that_it_is_shared(self) -> None:
        joined = join(nvml_gpus(h200()), Gpu(torch_index=0, uuid=h200().uuid[4:], memory_unified=True))
        (gpu,) = share_memory(joined, 1, 1)
        assert gpu.memory_unified
        assert gpu.memory_used == 0  # as NVML says

    def test_other_cards_have_their_own(self) -> None:
        gpus = nvml_gpus(*TWO)
        assert share_memory(gpus, 1, 1) == gpus
