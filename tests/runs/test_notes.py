"""What is said of a run beside its row in the list, and what the live pane is told of its events."""

from __future__ import annotations

from pathlib import Path

import msgspec

from kerneltui.runs.training import Training
from kerneltui.runs.view_record import RunView
from kerneltui.show import run_lines, run_notes

LIVE = RunView(name="mine", path="/runs/mine", phase="running")


def test_an_alert_and_another_machine_are_told_in_the_list() -> None:
    view = msgspec.structs.replace(LIVE, alert="another kernel\x1b[2J was loaded", host="gpu-7")
    assert run_notes(view) == [("warn", "another kernel was loaded"), ("note", "it runs on gpu-7")]
    lines = run_lines([view], Path("/runs"))
    assert lines[1].startswith("▲")
    assert lines[-2:] == ["▲ mine: another kernel was loaded", "· mine: it runs on gpu-7"]


def test_a_lost_contact_is_told_once() -> None:
    view = msgspec.structs.replace(LIVE, alert="lost contact: …", host="gpu-7", silent_since="2026-12-01T10:00:00Z")
    assert run_notes(view) == [("warn", "lost contact: …")]


def test_a_run_that_ended_keeps_its_sign_and_says_why_it_ended_and_what_differed() -> None:
    view = msgspec.structs.replace(LIVE, phase="failed", reason="ValueError: x", alert="another kernel was loaded")
    assert run_notes(view) == [("block", "ValueError: x"), ("warn", "another kernel was loaded")]
    assert run_lines([view], Path("/runs"))[1].startswith("✖")
    assert run_notes(LIVE) == []


def test_events_that_a_person_must_know_become_notices() -> None:
    training = Training()
    for event in (
        {"event": "alert", "severity": "block", "text": "another\x07 kernel", "next_step": "Stop it."},
        {"event": "alert", "severity": "odd", "text": "Another build."},
        {"event": "alert", "id": "disk_full", "severity": "block", "text": "full", "why": "0 left."},
        {"event": "alert_over", "id": "disk_full"},
        {"event": "recorder_failed", "error": {"type": "E", "message": "m"}},
        {"event": "left_running", "pids": [7]},
    ):
        training.add_event({"attempt": 1, "time": "2026-12-01T10:00:00+00:00", **event})
    assert [(notice.severity, notice.text) for notice in training.notices] == [
        ("block", "another kernel. Stop it."),
        ("warn", "Another build."),
        ("warn", "the record has gaps (E: m); training goes on"),
        ("block", "these processes of the run still live: [7]"),
    ]
