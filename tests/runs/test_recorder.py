"""The recorder against a trainer that is a few attributes: what it writes, and that nothing in it ends the training."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kerneltui.runs.directory import RunDirectory, read_lines
from kerneltui.worker import recorder as module
from kerneltui.worker.record import Record
from kerneltui.worker.recorder import Recorder, take_request


class Loop:
    """Calls a recorder as a Trainer with one process does."""

    def __init__(self, folder: Path, total: int = 20) -> None:
        self.run = RunDirectory(folder)
        self.recorder = Recorder(Record(folder, 1, 0))
        self.args = SimpleNamespace(world_size=1, output_dir=str(folder / "output"), device="cpu", save_strategy="no")
        self.state = SimpleNamespace(
            global_step=0, max_steps=total, epoch=0.5, save_steps=500, is_world_process_zero=True
        )
        self.control = SimpleNamespace(should_save=False, should_training_stop=False)
        self.model: Any = SimpleNamespace(config=SimpleNamespace(_attn_implementation="sdpa"))

    def begin(self) -> None:
        self.recorder.on_train_begin(self.args, self.state, self.control, model=self.model)

    def step(self, **logs: Any) -> None:
        self.state.global_step += 1
        self.recorder.on_step_end(self.args, self.state, self.control)
        self.recorder.on_log(self.args, self.state, self.control, logs=logs)

    def end(self) -> None:
        self.recorder.on_train_end(self.args, self.state, self.control)

    def request(self, action: str) -> None:
        self.run.request.write_text(json.dumps({"action": action, "time": "2026-12-01T10:00:00+00:00"}))

    def events(self, name: str) -> list[dict[str, Any]]:
        return [event for event in read_lines(self.run.events) if event["event"] == name]


@pytest.fixture
def loop(tmp_path: Path) -> Loop:
    return Loop(tmp_path)


def test_a_stop_is_carried_out_once(loop: Loop) -> None:
    loop.begin()
    loop.request("stop")
    loop.step(loss=1.0)
    assert (loop.control.should_save, loop.control.should_training_stop, loop.recorder.stopped) == (True, True, True)
    assert [event["action"] for event in loop.events("request")] == ["stop"]
    assert list(loop.run.path.glob("*request*")) == list(loop.run.path.glob(".request*")) == []


def test_a_kill_is_left_to_the_supervisor(loop: Loop) -> None:
    loop.request("kill")
    assert take_request(loop.run.path) == ""
    assert json.loads(loop.run.request.read_bytes())["action"] == "kill"


def test_what_is_no_request_is_none(loop: Loop) -> None:
    for text in ("", "{", "[]", '{"action": ["stop"]}', '{"action": "dance"}', "\udcff"):
        loop.run.request.write_text(text, errors="surrogateescape")
        assert take_request(loop.run.path) == ""


@pytest.mark.parametrize("method", ["rename", "read_bytes", "unlink"])
def test_a_request_that_cannot_be_taken_harms_nothing(loop: Loop, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    loop.begin()
    loop.request("stop")
    with monkeypatch.context() as patch:
        patch.setattr(Path, method, refuse)
        loop.step(loss=1.0)
    # It was taken where only the trace of it could not be removed, else it waits for the next step.
    assert loop.recorder.stopped == (method == "unlink")
    loop.step(loss=1.0)
    assert loop.recorder.stopped
    assert len(loop.events("request")) == 1
    assert loop.events("recorder_failed") == []


def test_the_last_step_is_in_the_progress(loop: Loop) -> None:
    loop.begin()
    for _ in range(3):
        loop.step(loss=1.0)
    loop.end()
    (progress,) = [line for line in read_lines(loop.run.metrics) if line["kind"] == "progress"]
    assert (progress["step"], progress["total"]) == (3, 20)
    assert progress["seconds_per_step"] >= 0


def test_the_end_repeats_no_progress(loop: Loop) -> None:
    loop.state.max_steps = 1
    loop.begin()
    loop.step(loss=1.0)
    loop.end()
    assert [line["step"] for line in read_lines(loop.run.metrics) if line["kind"] == "progress"] == [1]


def test_a_fault_of_the_recorder_is_told_once_and_training_goes_on(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    circle: dict[str, Any] = {}
    circle["self"] = circle

    def broken() -> list[dict[str, Any]]:
        raise AttributeError("'NoneType' object has no attribute 'name'")

    monkeypatch.setattr(module, "loaded_kernels", broken)
    loop.begin()
    loop.step(loss=circle)
    loop.step(loss=2.0)
    loop.recorder.on_save(SimpleNamespace(output_dir=None), loop.state, loop.control)
    loop.request("checkpoint")
    loop.step(loss=3.0)
    loop.end()
    (failed,) = loop.events("recorder_failed")
    assert failed["place"] == "on_train_begin"
    assert failed["error"]["type"] == "AttributeError"
    assert "loaded_kernels" in failed["error"]["traceback"]
    # What does not depend on the fault is recorded all the same.
    assert loop.events("train_begin")[0]["attention"] == "sdpa"
    logs = [line["values"]["loss"] for line in read_lines(loop.run.metrics) if line["kind"] == "log"]
    assert logs == [2.0, 3.0]
    assert loop.control.should_save


def test_a_model_without_a_configuration_harms_nothing(loop: Loop) -> None:
    loop.model = object()
    loop.begin()
    loop.step(loss=1.0)
    assert [event["place"] for event in loop.events("recorder_failed")] == ["on_train_begin"]


def test_ranks_that_torch_does_not_connect_train_without_requests(loop: Loop) -> None:
    loop.args.world_size = 2
    loop.begin()
    loop.request("stop")
    loop.step(loss=1.0)
    assert not loop.recorder.stopped
    assert "checkpoint and stop cannot work" in loop.events("recorder_failed")[0]["error"]["message"]


def test_a_line_after_a_full_disk_stands_on_its_own(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda descriptor, data: real(descriptor, data[:9]))
        loop.recorder.record.event("checkpoint", step=1)
    loop.recorder.record.event("checkpoint", step=2)
    lines = loop.run.events.read_bytes().split(b"\n")
    assert len(lines) == 3
    assert len(lines[0]) == 9
    assert [event["step"] for event in loop.events("checkpoint")] == [2]


def test_a_log_on_the_same_full_disk_harms_nothing(
    loop: Loop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    loop.recorder.record.event("checkpoint", step=1)
    assert "could not write events.jsonl: No space left on device" in capsys.readouterr().out
    monkeypatch.setattr("builtins.print", full)
    loop.recorder.record.event("checkpoint", step=1)


def test_an_exception_without_words_is_recorded(loop: Loop) -> None:
    class MuteError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    loop.recorder.record.end("failed", MuteError())
    assert loop.events("process_end")[0]["error"]["type"] == "MuteError"
