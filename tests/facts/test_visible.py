"""What CUDA shows under CUDA_VISIBLE_DEVICES: cards, and parts of divided ones."""

from __future__ import annotations

import msgspec
import pytest

from kerneltui.facts.server import Gpu, MigInstance
from kerneltui.facts.visible import visible_gpus

CARDS = tuple(Gpu(index=n, uuid=f"GPU-{letter * 8}-0000") for n, letter in enumerate("abc"))
GIB = 1 << 30


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        ("1", [1]), ("2,0", [2, 0]), (" 1 , 2 ", [1, 2]), ("", []), ("-1", []), ("1,7,2", [1]), ("1,1", []),
        ("GPU-bb", [1]), ("GPU-bbbbbbbb-0000,GPU-a", [1, 0]), ("gpu-bb", []), ("GPU-BB", [1]), ("GPU-", []),
        ("NoDevFiles", []), ("MIG-x", [0, 1, 2]), (None, [0, 1, 2]),
    ],
)  # fmt: skip
def test_whole_cards(devices: str | None, expected: list[int]) -> None:
    assert [gpu.index for gpu in visible_gpus(CARDS, devices)] == expected


def test_a_short_uuid_that_fits_two_cards_names_none() -> None:
    twins = tuple(Gpu(index=n, uuid=f"GPU-aaaa{n}") for n in range(2))
    assert visible_gpus(twins, "GPU-aaaa") == ()


def test_cards_that_nothing_tells_apart_are_not_hidden() -> None:
    card = Gpu(torch_index=0, name="AMD Instinct MI300X")
    assert visible_gpus((card,), "0") == (card,)
    both = (card, msgspec.structs.replace(card, torch_index=1))
    assert visible_gpus(both, None) == visible_gpus(both, "1") == both


def part(letter: str, gpu_instance: int, compute_instance: int = 0, size: int = 10) -> MigInstance:
    """A compute instance as NVML tells it."""
    return MigInstance(
        uuid=f"MIG-{letter * 8}-0000", name=f"NVIDIA H100 MIG {letter}", gpu_instance=gpu_instance,
        compute_instance=compute_instance, memory_total=size * GIB, memory_used=GIB,
    )  # fmt: skip


# The first GPU instance of the first card has two compute instances, the second one; card 1 is whole.
DIVIDED = Gpu(
    index=0, uuid="GPU-aaaaaaaa-0000", name="NVIDIA H100", memory_total=80 * GIB, memory_reserved=1, mig=True,
    mig_instances=(part("1", 2, 0, 40), part("2", 2, 1, 40), part("3", 7)),
)  # fmt: skip
WHOLE = Gpu(index=1, uuid="GPU-bbbbbbbb-0000", name="NVIDIA H100", mig=False, mig_instances=())
LAST = msgspec.structs.replace(DIVIDED, index=2, uuid="GPU-cccccccc-0000", mig_instances=(part("4", 1),))
SERVER = (DIVIDED, WHOLE, LAST)
OLD, NEW = "535.129.03", "580.159.03"


def names(devices: str | None, driver: str | None, gpus: tuple[Gpu, ...] = SERVER) -> str:
    """The last letters of what is shown: a part's own, w for the whole card."""
    shown = visible_gpus(gpus, devices, driver=driver)
    return "".join("w" if gpu is WHOLE else str(gpu.name)[-1] for gpu in shown)


@pytest.mark.parametrize(
    ("devices", "driver", "expected"),
    [
        # An old driver shows one part, and no whole card beside it; a new one a part of each GPU instance.
        (None, OLD, "1"), (None, NEW, "w134"), (None, None, "1"), (None, "unknown", "1"),
        ("MIG-33333333-0000", OLD, "3"), ("MIG-3", NEW, "3"), ("mig-3", NEW, ""), ("MIG-", NEW, ""),
        ("MIG-3,MIG-1", OLD, "3"), ("MIG-3,MIG-1", NEW, "31"), ("MIG-1,MIG-2", NEW, "1"), ("MIG-1,MIG-1", NEW, ""),
        ("MIG-1,MIG-9,MIG-4", NEW, "1"), ("MIG-9", NEW, ""),
        # As drivers before 470 name parts.
        ("MIG-GPU-aaaaaaaa-0000/2/1", OLD, "2"), ("MIG-GPU-a/7/0", OLD, "3"), ("MIG-GPU-aaaaaaaa-0000/7", OLD, ""),
        ("MIG-GPU-aaaaaaaa-0000/9/0", OLD, ""), ("MIG-GPU-c/1/0,MIG-GPU-a/2/0", NEW, "41"),
        # Whole cards by UUID, and by numbers, where parts come last.
        ("GPU-b", NEW, "w"), ("GPU-a", NEW, "1"), ("GPU-b,GPU-c", OLD, "4"), ("GPU-b,GPU-c", NEW, "w4"),
        ("0", NEW, "w"), ("1", NEW, "1"), ("2", NEW, "3"), ("3", NEW, "4"), ("4", NEW, ""), ("2", OLD, "4"),
        ("3", OLD, ""),
    ],
)  # fmt: skip
def test_parts(devices: str | None, driver: str | None, expected: str) -> None:
    assert names(devices, driver) == expected


def test_a_part_has_its_own_name_and_memory() -> None:
    (shown,) = visible_gpus(SERVER, "MIG-3", driver=NEW)
    assert (shown.index, shown.uuid, shown.name) == (0, "GPU-aaaaaaaa-0000", "NVIDIA H100 MIG 3")
    assert (shown.memory_total, shown.memory_used, shown.memory_free) == (10 * GIB, GIB, 9 * GIB)
    assert shown.mig_instances == (part("3", 7),)
    assert (shown.memory_reserved, shown.processes) == (None, None)
    assert shown.unavailable["memory_reserved"] == shown.unavailable["processes"] == "not told of a part"


def test_the_memory_of_a_part_that_was_not_told() -> None:
    silent = MigInstance(uuid="MIG-5", unavailable={"memory_total": "Unknown Error", "memory_used": "Unknown Error"})
    card = msgspec.structs.replace(DIVIDED, mig_instances=(silent,))
    (shown,) = visible_gpus((card,), "0", driver=NEW)
    assert (shown.memory_total, shown.memory_free) == (None, None)
    assert shown.unavailable["memory_total"] == shown.unavailable["memory_free"] == "Unknown Error"


def test_a_divided_card_without_parts_shows_nothing() -> None:
    empty = msgspec.structs.replace(DIVIDED, mig_instances=())
    assert visible_gpus((empty,), None, driver=NEW) == ()
    assert names("0", NEW, (empty, WHOLE)) == names("GPU-b", NEW, (empty, WHOLE)) == "w"


def test_parts_of_a_card_that_does_not_tell_them() -> None:
    """Nothing is claimed: the card stands for them."""
    silent = msgspec.structs.replace(DIVIDED, mig_instances=None)
    assert visible_gpus((silent, WHOLE), "MIG-3", driver=NEW) == (silent,)
    assert visible_gpus((silent, WHOLE), "0", driver=NEW) == (silent,)
