"""A run read again and again: snapshots of recorded lines, without a screen."""

from __future__ import annotations

import json
import math
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kerneltui.runs.live import LiveRun, steps_to_checkpoint
from kerneltui.runs.live_view import LiveView
from kerneltui.runs.samples import Samples
from kerneltui.runs.tail import JsonTail
from kerneltui.runs.training import Training, number
from tests.tui import fake_runs
from tests.tui.fake_runs import KERNEL, LOADED, FakeRun


def view_of(fake: FakeRun, *, later: float = 0) -> LiveView:
    return LiveRun(fake.run).poll(now=fake.time + timedelta(seconds=later))


def test_a_running_run_tells_how_far_it_is_and_how_fast(tmp_path: Path) -> None:
    view = view_of(fake_runs.running(tmp_path))
    assert (view.name, view.trainer, view.model) == ("calm-otter", "sft", "Qwen/Qwen3-0.6B")
    assert (view.phase, view.active, view.stage) == ("running", True, None)
    assert (view.step, view.total) == (412, 3000)
    assert view.seconds_per_step == pytest.approx(0.127, rel=0.01)
    assert view.seconds_left == pytest.approx((3000 - 412) * 0.127, rel=0.02)
    assert view.tokens_per_second == pytest.approx(16384 / 0.127, rel=0.01)
    assert (view.next_checkpoint, view.last_checkpoint and view.last_checkpoint.step) == (88, 400)
    assert view.seconds_to_checkpoint == pytest.approx(88 * 0.127, rel=0.02)


def test_the_attention_in_use_is_held_against_the_promise(tmp_path: Path) -> None:
    fake = FakeRun(tmp_path)
    assert view_of(fake).attention.used is None
    fake.begin()
    attention = view_of(fake).attention
    assert (attention.promised, attention.used, attention.alerts) == (f"{KERNEL}@v4", f"{KERNEL}@v4", ())
    assert [str(kernel) for kernel in attention.kernels] == [f"{KERNEL}@v4 · 1a2b3c4d"]


@pytest.mark.parametrize(
    ("attention", "kernel", "alert", "severity"),
    [
        ("sdpa", LOADED, "other_attention", "block"),
        (f"{KERNEL}@v4", {**LOADED, "commit": "f" * 40}, "other_commit", "warn"),
    ],
)
def test_another_attention_or_another_commit_is_told(
    tmp_path: Path, attention: str, kernel: dict[str, Any], alert: str, severity: str
) -> None:
    fake = FakeRun(tmp_path)
    fake.begin(attention=attention, kernels=[kernel])
    (found,) = view_of(fake).attention.alerts
    assert (found.id, found.severity) == (alert, severity)


def test_curves_are_told_apart_from_counters_summaries_and_evaluations(tmp_path: Path) -> None:
    fake = fake_runs.finished(tmp_path)
    fake.log(300, eval_loss=2.0, eval_runtime=3.0, eval_samples_per_second=9.0)
    view = view_of(fake)
    assert list(view.metrics) == ["loss", "grad_norm", "learning_rate", "entropy", "mean_token_accuracy"]
    assert list(view.evaluations) == ["loss"]
    assert view.summary["train_loss"] == 1.93
    assert [step for step, _ in view.metrics["loss"]] == list(range(4, 301, 4))


def test_words_for_what_json_cannot_hold_become_numbers(tmp_path: Path) -> None:
    fake = FakeRun(tmp_path)
    fake.begin()
    for step, value in enumerate(["NaN", "Infinity", "-Infinity", 1.5, "nonsense", None, True], 1):
        fake.log(step, loss=value)
    points = list(view_of(fake).metrics["loss"])
    assert [step for step, _ in points] == [1, 2, 3, 4]
    assert math.isnan(points[0][1])
    assert [value for _, value in points[1:]] == [math.inf, -math.inf, 1.5]
    assert number("1.5") is None


def test_where_two_attempts_have_the_same_step_the_later_one_counts(tmp_path: Path) -> None:
    fake = FakeRun(tmp_path)
    fake.begin()
    for step in range(1, 11):
        fake.log(step, loss=float(step), num_tokens=100.0 * step)
        fake.progress(step)
    fake.event("checkpoint", step=5, path="/out/checkpoint-5")
    live = LiveRun(fake.run)
    assert live.poll(now=fake.time).step == 10
    fake.run.attempt(2).mkdir()
    fake.state("running", attempt=2)
    waiting = live.poll(now=fake.time)
    assert (waiting.step, waiting.attempt, waiting.stage) == (None, 2, "starting the training process")
    fake.begin(attempt=2, step=5)
    fake.log(6, attempt=2, loss=60.0)
    view = live.poll(now=fake.time)
    assert list(view.metrics["loss"]) == [(1, 1.0), (2, 2.0), (3, 3.0), (4, 4.0), (5, 5.0), (6, 60.0)]
    assert view.step == 6
    assert view.log == fake.run.output(2)


def test_the_record_of_an_earlier_attempt_is_kept_when_its_lines_are_read_later(tmp_path: Path) -> None:
    fake = FakeRun(tmp_path)
    fake.begin()
    fake.log(1, loss=1.0)
    fake.begin(attempt=2, step=1)
    fake.log(2, attempt=2, loss=2.0)
    fake.state("running", attempt=2)
    # The events, which are read first, already tell of the second attempt.
    assert list(view_of(fake).metrics["loss"]) == [(1, 1.0), (2, 2.0)]


def test_before_the_first_step_it_says_what_is_happening_and_since_when(tmp_path: Path) -> None:
    fake = FakeRun(tmp_path)
    fake.state("starting")
    live = LiveRun(fake.run)
    assert live.poll(now=fake.time).stage == "starting its supervisor"
    fake.state("running")
    assert live.poll(now=fake.time).stage == "starting the training process"
    fake.forward(3)
    fake.event("process_start", trainer="sft", pid=1)
    loading = live.poll(now=fake.time)
    assert (loading.stage, loading.stage_since) == ("importing packages, loading model and data", fake.time)
    fake.begin()
    assert live.poll(now=fake.time).stage == "taking its first step"
    fake.progress(1)
    assert live.poll(now=fake.time).stage is None
    assert live.poll(now=fake.time).next_checkpoint == 499
    fake.event("train_end", step=1, kernels=[])
    saving = live.poll(now=fake.time)
    assert saving.stage == "training is done; the model is being saved"
    assert (saving.next_checkpoint, saving.seconds_left) == (None, None)


def test_a_failed_run_says_how_to_go_on_from_its_checkpoint(tmp_path: Path) -> None:
    fake = fake_runs.failed(tmp_path)
    view = view_of(fake)
    assert (view.phase, view.active, view.stage, view.pending) == ("failed", False, None, None)
    assert view.reason is not None
    assert view.reason.startswith("OutOfMemoryError: CUDA out of memory")
    assert view.last_checkpoint is not None
    assert (view.resumable, view.last_checkpoint.step) == (True, 100)


def test_gpus_have_what_they_are_their_last_sample_and_their_history(tmp_path: Path) -> None:
    fake = FakeRun(tmp_path, gpus=2)
    for value in (10, None, 30):
        fake.sample(utilization=value)
    first, second = view_of(fake).gpus
    assert (first.index, second.index, first.name) == (0, 1, "H200")
    assert (first.memory_total, first.power_limit) == (143 << 30, 700.0)
    assert first.use == 30
    assert first.use_history == (10, None, 30)
    assert first.throttle == ()
    assert view_of(fake).machine.disk_free == 812 << 30


def test_a_process_that_says_nothing_for_long_is_noticed(tmp_path: Path) -> None:
    fake = fake_runs.running(tmp_path)
    log = fake.run.output(1)
    log.unlink()  # it was just written; what counts here is the record
    assert view_of(fake, later=30).silent is None
    assert view_of(fake, later=90).silent == pytest.approx(90)


def test_a_record_that_cannot_be_read_is_a_problem_and_not_an_exception(tmp_path: Path) -> None:
    fake = FakeRun(tmp_path)
    (fake.run.path / "run.json").write_text("{")
    problem = view_of(fake).problem
    assert problem is not None
    assert "run.json is not JSON" in problem


def test_a_big_record_is_read_in_slices_and_nothing_twice(tmp_path: Path) -> None:
    fake = FakeRun(tmp_path)
    fake.begin()
    line = {"time": fake.time.isoformat(), "attempt": 1, "kind": "log", "epoch": 1.0}
    with fake.run.metrics.open("w") as file:
        file.writelines(json.dumps({**line, "step": step, "values": {"loss": 1.0}}) + "\n" for step in range(20_000))
    live = LiveRun(fake.run)
    views = [live.poll(now=fake.time)]
    while views[-1].behind:
        views.append(live.poll(now=fake.time))
    assert len(views) > 2
    assert [len(view.metrics["loss"]) for view in views] == sorted(len(view.metrics["loss"]) for view in views)
    assert list(views[-1].metrics["loss"].steps) == list(range(20_000))


def test_half_a_line_waits_and_a_long_one_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    tail = JsonTail(path)
    assert tail.read(100) == []
    path.write_bytes(b'{"a": 1}\n{"a"')
    assert tail.read(100) == [{"a": 1}]
    with path.open("ab") as file:
        file.write(b': 2}\nnonsense\n[1]\n\xff\n{"a": 3}\n')
    assert tail.read(100) == [{"a": 2}, {"a": 3}]
    assert tail.skipped == 3
    late = JsonTail(path, from_end=12)
    assert late.read(100) == [{"a": 3}]


@pytest.mark.parametrize(
    ("step", "total", "every", "steps"),
    [(412, 3000, 500, 88), (0, 3000, 500, 500), (2990, 3000, 500, 10), (3000, 3000, 500, None), (5, 10, None, None),
     (5, None, 4, 3), (None, 10, 4, None)],
)  # fmt: skip
def test_the_next_checkpoint(step: int | None, total: int | None, every: int | None, steps: int | None) -> None:
    assert steps_to_checkpoint(step, total, every) == steps


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
_KEYS = (
    "time attempt event kind step total epoch values seconds_per_step kernels attention save_steps path error gpus"
    " memory_used output_dir outcome pids"
).split()
_EVENTS = ("train_begin", "checkpoint", "process_end", "kill_failed", "log", "progress", "recorder_failed")


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.dictionaries(st.sampled_from(_KEYS), _JSON | st.sampled_from(_EVENTS)), max_size=4))
def test_no_line_of_a_record_raises(lines: list[dict[str, Any]]) -> None:
    training, samples = Training(), Samples((), None)
    for line in lines:
        decoded = msgspec.json.decode(msgspec.json.encode(line))
        training.add_event(decoded)
        training.add_metrics(decoded)
        samples.add(decoded)
    training.series()
    training.seconds_per_step()
    training.tokens_per_second()
    samples.gpus()
