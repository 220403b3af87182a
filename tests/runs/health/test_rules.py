"""Every alert has a series that triggers it, and healthy ones near by that do not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from kerneltui.runs.alert import Alert
from kerneltui.runs.health.health import judge
from kerneltui.runs.health.window import Disk, Log, MachineSample, Pace, Window
from tests.runs.health.windows import CARD, GIB, NOW, falling, healthy, logs, samples

NAN, INF = math.nan, math.inf


def ids(window: Window) -> list[str]:
    return [alert.id for alert in judge(window)]


def only(window: Window) -> Alert:
    (alert,) = judge(window)
    assert alert.text
    assert alert.next_step
    return alert


def rising(first: float, last: float, total: float = 500 * GIB) -> tuple[MachineSample, ...]:
    """Return samples of a host whose memory goes from one size to another."""
    made = samples()
    step = (last - first) / len(made)
    return tuple(
        MachineSample(sample.time, sample.gpus, int(first + step * place), int(total), 40.0)
        for place, sample in enumerate(made)
    )


def test_a_run_that_goes_well_has_no_alerts() -> None:
    assert judge(healthy()) == []
    assert judge(Window(now=NOW)) == [], "nor one of which nothing is known yet"


@pytest.mark.parametrize(
    "losses",
    [
        falling(300),
        [0.693 + 0.001 * math.sin(place) for place in range(100)],  # DPO before it learns
        [2.0 - 0.01 * place if place % 25 else 4.5 for place in range(100)],  # single spikes
        [8.0, *falling(20)],
        [1.5, 1.6],
        [0.02 + 0.01 * math.sin(3 * place) for place in range(100)],  # nearly learnt by heart
        [0.0, 0.0, 0.1, 0.0, 0.0],
        [1.25] * 19,
    ],
)  # fmt: skip
def test_good_losses_are_left_alone(losses: Sequence[float]) -> None:
    assert ids(healthy(logs=logs(*losses))) == []


@pytest.mark.parametrize(
    ("losses", "found"),
    [
        ([2.0, 1.9, NAN], "not_finite"),
        ([NAN], "not_finite"),
        ([2.0, INF, 1.9], "not_finite"),
        ([1.5, 0.0, 0.0, 0.0, 0.0, 0.0], "loss_zero"),
        ([1.25] * 20, "loss_constant"),
        ([*falling(60), *(1.7 + 0.2 * place for place in range(30))], "diverged"),
        ([*falling(60), *[9.5 + 0.1 * math.sin(place) for place in range(24)]], "diverged"),
    ],
)
def test_losses_that_are_wrong_are_told(losses: Sequence[float], found: str) -> None:
    assert only(healthy(logs=logs(*losses))).id == found


def test_a_norm_that_is_no_number_is_told_although_the_loss_is_one() -> None:
    lines = (*logs(2.0, 1.9), Log(NOW, 30, {"loss": 1.8, "grad_norm": NAN}))
    alert = only(healthy(logs=lines))
    assert (alert.id, alert.severity, alert.since) == ("not_finite", "block", NOW.isoformat(timespec="seconds"))
    assert alert.text.startswith("grad_norm is not finite since step 30")


def test_weights_that_are_no_numbers_are_told_between_log_lines() -> None:
    alert = only(healthy(logs=(), broken_weights=(NOW, 17)))
    assert alert.text == "the weights are no numbers (NaN) since step 17 or shortly before"


def test_a_zero_loss_is_no_matter_where_rewards_are_the_measure() -> None:
    lines = tuple(Log(log.time, log.step, {"loss": 0.0, "reward": 0.3 + log.step / 1e4}) for log in logs(*range(40)))
    assert ids(healthy(logs=lines)) == []


def _quiet(seconds: float, usual: float = 1.0) -> Window:
    last = NOW - timedelta(seconds=seconds)
    paces = tuple(Pace(last - timedelta(seconds=usual * back), 60 - back, usual) for back in range(59, -1, -1))
    return healthy(paces=paces, heard=last, samples=())


@pytest.mark.parametrize(("seconds", "usual", "told"), [(170, 1, False), (200, 1, True), (1900, 100, False),
                                                       (2100, 100, True)])  # fmt: skip
def test_a_run_that_stands_still_is_told_by_its_own_pace(seconds: float, usual: float, told: bool) -> None:
    assert ids(_quiet(seconds, usual)) == (["stalled"] if told else [])


def test_an_evaluation_that_prints_is_no_standstill() -> None:
    assert ids(changed(_quiet(900), heard=NOW - timedelta(seconds=3))) == []


def test_before_and_after_training_no_steps_are_waited_for() -> None:
    assert ids(changed(_quiet(900), stepping=None)) == []
    first = changed(_quiet(900), paces=(), stepping=NOW - timedelta(seconds=900))
    assert ids(first) == [], "the first step compiles"
    assert ids(changed(_quiet(1300), paces=(), stepping=NOW - timedelta(seconds=1300))) == ["stalled"]


def changed(window: Window, **changes: Any) -> Window:
    return Window(**{**vars(window), **changes})


@pytest.mark.parametrize(
    ("changes", "found", "words"),
    [
        ({"unavailable": {"gpu": "GPU is lost"}}, "gpu_lost:GPU 0", "GPU 0 does not answer"),
        ({"throttle": ("thermal slowdown by the hardware",), "temperature": 88}, "throttled:GPU 0",
         "GPU 0 is slowed down: thermal slowdown by the hardware, at 88 °C"),
        ({"throttle": ("power brake",)}, "throttled:GPU 0", "GPU 0 is slowed down: power brake, at 64 °C"),
        ({"temperature": 87}, "hot:GPU 0", "GPU 0 is too hot: 87 °C"),
        ({"utilization": 12}, "gpu_idle", "the GPU waits: 12 % use over the last 3 minutes while the CPU is 40 % busy"),
    ],
)  # fmt: skip
def test_gpus_that_are_not_well_are_told(changes: dict[str, Any], found: str, words: str) -> None:
    alert = only(healthy(samples=samples(**changes)))
    assert (alert.id, alert.text) == (found, words)


@pytest.mark.parametrize(
    "window",
    [
        healthy(samples=samples(temperature=86)),
        healthy(samples=samples(temperature=90), temperature_limits={}),
        healthy(samples=samples(utilization=40)),
        healthy(samples=samples(utilization=None, throttle=None, temperature=None, memory_used=None, ecc_errors=None)),
        healthy(samples=(*samples(), *samples(2, unavailable={"gpu": "GPU is lost"}))),  # it may answer again
        healthy(samples=samples(utilization=5), stepping=None),
        healthy(samples=samples(utilization=5), logs=logs(*falling(), name="reward")),  # it generates elsewhere
        healthy(samples=samples(20, utilization=5)),  # not for long enough yet
        healthy(samples=samples(ecc_errors=3)),  # as before
    ],
)  # fmt: skip
def test_gpus_that_are_well_are_left_alone(window: Window) -> None:
    assert ids(window) == []


def test_new_memory_errors_are_told() -> None:
    worse = samples(3, msgspec.structs.replace(CARD, ecc_errors=2))
    assert only(healthy(samples=(*samples(), *worse))).why == "ECC counted 0 before and 2 now."


def test_the_cards_of_a_run_are_told_apart() -> None:
    hot = msgspec.structs.replace(CARD, index=3, uuid="GPU-3", temperature=91)
    both = tuple(MachineSample(sample.time, (*sample.gpus, hot), 1, 2, None) for sample in samples())
    assert ids(healthy(samples=both, temperature_limits={"GPU-3": 90})) == ["hot:GPU 3"]


def test_memory_of_the_host_that_creeps_up_is_told_in_time() -> None:
    alert = only(healthy(samples=rising(300 * GIB, 350 * GIB)))
    assert alert.id == "host_memory_creeps"
    assert alert.text == "the host's memory creeps up: 349.8 GiB of 500.0 GiB, full in about 33 m"
    assert only(healthy(samples=rising(470 * GIB, 480 * GIB))).id == "host_memory"


@pytest.mark.parametrize(("first", "last"), [(300, 300), (300, 305), (100, 109), (400, 300), (20, 40)])
def test_memory_that_stays_or_has_room_for_hours_is_left_alone(first: int, last: int) -> None:
    assert ids(healthy(samples=rising(first * GIB, last * GIB))) == []


def test_memory_that_rose_once_does_not_creep() -> None:
    made = samples()
    jumped = tuple(
        MachineSample(sample.time, sample.gpus, (300 if place < 200 else 400) * GIB, 500 * GIB, None)
        for place, sample in enumerate(made)
    )
    assert ids(healthy(samples=jumped)) == []


def test_memory_of_a_gpu_that_creeps_up_is_told() -> None:
    made = samples()
    cards = [msgspec.structs.replace(CARD, memory_used=int((90 + place / 10) * GIB)) for place in range(len(made))]
    crept = tuple(MachineSample(sample.time, (card,), 1, 2, None) for sample, card in zip(made, cards, strict=True))
    assert only(healthy(samples=crept)).id == "gpu_memory_creeps:GPU 0"


@pytest.mark.parametrize(
    ("disk", "found", "words"),
    [
        (Disk("/runs", 15 * GIB, 20 * GIB, 40), "disk_full",
         "the next checkpoint does not fit on the disk, in 40 steps, about 40 s"),
        (Disk("/runs", 25 * GIB, 20 * GIB, None), "disk_short", "only one more checkpoint fits on the disk"),
        (Disk("/runs", GIB // 4), "disk_full", "the disk is nearly full: 0.25 GiB are free"),
    ],
)  # fmt: skip
def test_a_disk_that_will_be_full_is_told_before_the_checkpoint(disk: Disk, found: str, words: str) -> None:
    alert = only(healthy(disk=disk))
    assert (alert.id, alert.text) == (found, words)


@pytest.mark.parametrize("disk", [None, Disk("/runs", 40 * GIB, 20 * GIB, 40), Disk("/runs", 2 * GIB)])
def test_a_disk_with_room_is_left_alone(disk: Disk | None) -> None:
    assert ids(healthy(disk=disk)) == []


def _rewards(**series: Sequence[float]) -> Window:
    count = max(map(len, series.values()))
    lines = []
    for place in range(count):
        values = {name: found[place] for name, found in series.items()}
        lines.append(Log(NOW - timedelta(seconds=count - place), place, {"reward": 0.5, **values}))
    return healthy(logs=tuple(lines))


LINES = range(40)


@pytest.mark.parametrize(
    ("series", "found"),
    [
        ({"reward_std": [0.3] * 30 + [0.0] * 10}, "reward_flat"),
        ({"frac_reward_zero_std": [1.0] * 10}, "reward_flat"),
        ({"kl": [0.02 + 0.001 * place for place in LINES]}, None),
        ({"kl": [0.02 * 1.2**place for place in LINES]}, "kl_runaway"),
        ({"kl": [0.0] * 15 + [0.9] * 10}, None),
        ({"completions/clipped_ratio": [1.0] * 10}, "completions_cut"),
        ({"completions/clipped_ratio": [1.0] * 9 + [0.6]}, None),
        ({"completions/clipped_ratio": [1.0] * 9}, None),
        ({"reward_std": [0.3, 0.0] * 10, "frac_reward_zero_std": [0.5] * 20}, None),
    ],
)  # fmt: skip
def test_rewards_that_teach_nothing_are_told(series: dict[str, Sequence[float]], found: str | None) -> None:
    assert ids(_rewards(**series)) == ([found] if found else [])
