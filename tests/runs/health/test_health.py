"""Alerts are said once, taken back when they have passed, and not repeated by the next supervisor."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from kerneltui.facts.server import Gpu
from kerneltui.runs.health.health import Health
from kerneltui.runs.health.window import Disk
from kerneltui.runs.machine import Sample
from tests.runs.health.windows import CARD, GIB, NOW

SHORT, ROOMY = Disk("/runs", 1 * GIB, 2 * GIB), Disk("/runs", 90 * GIB, 2 * GIB)


def _line(seconds: float, **values: Any) -> dict[str, Any]:
    return {"time": (NOW + timedelta(seconds=seconds)).isoformat(), "attempt": 1, **values}


def _look(health: Health, seconds: float = 0, room: Disk | None = ROOMY) -> tuple[list[str], list[str]]:
    new, over = health.look(NOW + timedelta(seconds=seconds), printed=None, room=room)
    return [alert.id for alert in new], over


def test_an_alert_is_said_once() -> None:
    health = Health()
    health.add_event(_line(0, event="train_begin", step=0, save_steps=50, settings={}))
    health.add_metrics(_line(1, kind="log", step=7, values={"loss": "NaN", "epoch": 0.1, "odd": "text"}))
    assert _look(health, 2) == (["not_finite"], [])
    health.add_metrics(_line(3, kind="log", step=8, values={"loss": "NaN"}))
    assert _look(health, 4) == ([], [])
    assert health.steps_to_checkpoint == 42


def test_what_has_passed_is_taken_back_and_may_come_again_later() -> None:
    health = Health()
    assert _look(health, 0, SHORT) == (["disk_full"], [])
    assert _look(health, 60, ROOMY) == ([], ["disk_full"])
    assert _look(health, 120, SHORT) == ([], []), "not every minute"
    assert _look(health, 4000, SHORT) == (["disk_full"], [])


def test_the_next_supervisor_does_not_repeat_what_was_said() -> None:
    health = Health()
    health.add_event(_line(0, event="alert", id="disk_full"))
    health.add_event(_line(0, event="alert", id="other_commit"))
    assert _look(health, 5, SHORT) == ([], [])
    assert _look(health, 10, ROOMY) == ([], ["disk_full"]), "what loaded stays as it is"


def test_a_run_that_stands_still_is_told_and_taken_back_when_it_goes_on() -> None:
    health = Health()
    health.add_event(_line(0, event="train_begin", step=0))
    for second in range(1, 30):
        health.add_metrics(_line(second, kind="progress", step=second, seconds_per_step=1.0))
    assert _look(health, 100) == ([], [])
    assert _look(health, 300) == (["stalled"], [])
    health.add_metrics(_line(301, kind="progress", step=30, seconds_per_step=270.0))
    assert _look(health, 302) == ([], ["stalled"])
    health.add_event(_line(303, event="train_end", step=30))
    assert _look(health, 9000) == ([], [])


def test_only_the_runs_own_cards_are_looked_at() -> None:
    card = Gpu(index=0, uuid="GPU-0", memory_total=140 * GIB, temperature_limit=60)
    sample = Sample(gpus=(CARD,), memory_used=1, memory_total=2, disk_free=3)
    for chosen, found in (((0,), ["hot:GPU 0"]), ((1,), []), (None, ["hot:GPU 0"])):
        health = Health((card,), chosen)
        for second in range(0, 200, 2):
            health.add_sample(NOW + timedelta(seconds=second), sample)
        assert _look(health, 200) == (found, [])


def test_lines_of_no_use_are_left_out() -> None:
    health = Health()
    for line in ({}, {"time": "never", "step": 1}, {"time": NOW.isoformat(), "step": "one"}):
        health.add_metrics(line)
        health.add_event(line)
    assert _look(health) == ([], [])
