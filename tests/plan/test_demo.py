"""On which processor the demo trains."""

from __future__ import annotations

import msgspec
import pytest
import yaml

from kerneltui.errors import UsageError
from kerneltui.facts.server import Server
from kerneltui.plan.demo import demo_plan
from tests.advice.situations import A100, H200, T4, make_server


def server(*free: int | None) -> Server:
    """Return a server with a T4, then an H200 for each amount of free memory."""
    made = make_server(T4, *(H200 for _ in free))
    gpus = [
        msgspec.structs.replace(gpu, memory_free=left, torch_index=gpu.index)
        for gpu, left in zip(made.gpus, (1 << 40, *free), strict=True)
    ]
    return msgspec.structs.replace(made, gpus=tuple(gpus))


@pytest.mark.parametrize(("free", "chosen"), [((1, 3, 2), 2), ((5, 5), 1), ((None, 4), 2), ((None, None), 1)], ids=str)
def test_it_takes_the_fitting_card_with_most_free_memory(free: tuple[int | None, ...], chosen: int) -> None:
    plan = demo_plan(server(*free), steps=2)
    assert plan.launch.gpus == (chosen,)
    assert yaml.safe_load(plan.config or "")["bf16"] is True


def test_it_takes_the_cards_that_are_named() -> None:
    assert demo_plan(server(1, 2, 3), steps=2, gpus=(1, 2)).launch.gpus == (1, 2)
    with pytest.raises(UsageError) as raised:
        demo_plan(server(1, 2), steps=2, gpus=(0, 1, 7))
    assert raised.value.title == "The demo cannot train on GPU 0, 7"
    assert raised.value.hint == "Those are: 1, 2."


def test_without_a_fitting_card_it_trains_on_the_cpu() -> None:
    plan = demo_plan(server(), steps=2)
    assert (plan.launch.gpus, yaml.safe_load(plan.config or "")["use_cpu"]) == (None, True)
    hidden = msgspec.structs.replace(make_server(A100).gpus[0], torch_index=None)
    unseen = msgspec.structs.replace(make_server(A100), gpus=(hidden,))
    with pytest.raises(UsageError, match="There is none here"):
        demo_plan(unseen, steps=2, gpus=(0,))
