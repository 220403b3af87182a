"""NVML's GPUs and torch's devices become one record a card."""

from __future__ import annotations

import pytest

from kerneltui.facts.devices import join_devices, visible_gpus
from kerneltui.facts.gpu import Nvml
from kerneltui.facts.server import Gpu
from tests.facts.fake_nvml import GIB, FakeNvml, gb10, h200

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


CARDS = tuple(Gpu(index=n, uuid=f"GPU-{letter * 8}-0000") for n, letter in enumerate("abc"))


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        ("1", [1]), ("2,0", [2, 0]), (" 1 , 2 ", [1, 2]), ("", []), ("-1", []), ("1,7,2", [1]), ("1,1", []),
        ("GPU-bb", [1]), ("GPU-bbbbbbbb-0000,GPU-a", [1, 0]), ("GPU-", []), ("NoDevFiles", []), ("MIG-x", [0, 1, 2]),
    ],
)  # fmt: skip
def test_what_cuda_shows_under_cuda_visible_devices(devices: str, expected: list[int]) -> None:
    assert [gpu.index for gpu in visible_gpus(CARDS, devices)] == expected


def test_cards_that_nothing_tells_apart_are_not_hidden() -> None:
    card = Gpu(torch_index=0, name="AMD Instinct MI300X")
    assert visible_gpus((card,), "0") == (card,)
