"""What is made of the record that a rehearsal's processes wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kerneltui.advice.rehearsed import findings_of
from kerneltui.advice.situation import Situation
from kerneltui.facts.dataset import DatasetFacts
from kerneltui.facts.prepared import Refusal
from kerneltui.facts.proof import Rehearsal
from kerneltui.prove.rehearsal_result import Heard, frames, judged, pointed_field
from kerneltui.runs.directory import RunDirectory
from tests.prove.rehearsing import on_the_cpu, with_values

BEGIN = {"event": "train_begin", "attention": "sdpa", "kernels": [], "world_size": 1, "device": "cpu", "step": 0}
TRACE = (
    'Traceback (most recent call last):\n  File "/x/site-packages/trl/trainer/sft_trainer.py", line 1000, in __init__\n'
)


def _judge(
    folder: Path,
    events: list[dict[str, Any]],
    losses: list[Any] = (),  # type: ignore[assignment]
    *,
    plan: Situation | None = None,
    code: int | None = 0,
    hung: float | None = None,
    log: str = "",
    grad_norm: Any = 1.0,
) -> Rehearsal:
    run = RunDirectory(folder / "run")
    run.attempt(1).mkdir(parents=True)
    run.output(1).write_text(log)
    start = {"event": "process_start", "rank": 0, "pid": 1}
    run.events.write_text("".join(json.dumps({"attempt": 1, **event}) + "\n" for event in (start, *events)))
    logged = [
        {"attempt": 1, "kind": "log", "step": step, "values": {"loss": loss, "grad_norm": grad_norm}}
        for step, loss in enumerate(losses, 1)
    ]
    run.metrics.write_text("".join(json.dumps(line) + "\n" for line in logged))
    heard = Heard(run, 2, lambda _: None)
    heard.listen()
    return judged(plan or on_the_cpu(), run, heard, code, hung=hung)


def _failed(kind: str, message: str, trace: str = TRACE) -> dict[str, Any]:
    error = {"type": kind, "message": message, "traceback": trace}
    return {"event": "process_end", "rank": 0, "outcome": "failed", "error": error}


ENDED = {"event": "process_end", "rank": 0, "outcome": "finished", "error": None}


def test_finite_losses_and_the_promised_attention_pass(tmp_path: Path) -> None:
    made = _judge(tmp_path, [BEGIN, ENDED], [6.2, 6.1])
    assert made.passed
    assert (made.losses, made.steps, made.attention, made.device) == ((6.2, 6.1), 2, "sdpa", "cpu")
    assert findings_of(on_the_cpu(), made) == ()


def test_a_loss_that_is_not_finite_blocks(tmp_path: Path) -> None:
    made = _judge(tmp_path, [BEGIN, ENDED], [6.2, "NaN"])
    assert not made.passed
    assert made.losses == (6.2, None)
    (finding,) = findings_of(on_the_cpu(), made)
    assert (finding.id, finding.severity, finding.origin) == ("rehearsal.loss", "block", "observed")
    assert "nan at step 2" in finding.why


def test_another_attention_than_was_asked_for_blocks(tmp_path: Path) -> None:
    plan = on_the_cpu(attn_implementation="flex_attention")
    made = _judge(tmp_path, [BEGIN, ENDED], [6.2], plan=plan)
    assert [finding.id for finding in findings_of(plan, made)] == ["rehearsal.attention"]


def test_one_process_in_the_place_of_two_blocks(tmp_path: Path) -> None:
    plan = on_the_cpu()
    plan = msgspec.structs.replace(plan, settings=msgspec.structs.replace(plan.settings, processes=2))
    made = _judge(tmp_path, [BEGIN, ENDED], [6.2], plan=plan)
    assert [finding.id for finding in findings_of(plan, made)] == ["rehearsal.processes"]
    two = _judge(tmp_path / "two", [{**BEGIN, "world_size": 2}, ENDED], [6.2], plan=plan)
    assert two.passed


def test_training_that_makes_no_step_blocks(tmp_path: Path) -> None:
    made = _judge(tmp_path, [BEGIN, ENDED])
    assert [finding.id for finding in findings_of(on_the_cpu(), made)] == ["rehearsal.loss"]


def test_a_process_that_fails_on_its_exit_is_no_good_end(tmp_path: Path) -> None:
    made = _judge(tmp_path, [BEGIN, ENDED], [6.2], code=1, log="free(): invalid pointer\n")
    assert made.ended == "exited"
    assert "failed on exit" in str(made.ending)


def test_float16_may_look_for_its_scale(tmp_path: Path) -> None:
    half = with_values(on_the_cpu(), fp16=True)
    made = _judge(tmp_path, [BEGIN, ENDED], [6.2], plan=half, grad_norm="Infinity")
    assert {check.name: check.outcome for check in made.checks}["gradients"] == "skipped"
    full = _judge(tmp_path / "full", [BEGIN, ENDED], [6.2], grad_norm="Infinity")
    assert [finding.id for finding in findings_of(on_the_cpu(), full)] == ["rehearsal.gradients"]


def test_a_gradient_of_zero_teaches_nothing_unless_all_answers_are_alike(tmp_path: Path) -> None:
    made = _judge(tmp_path, [BEGIN, ENDED], [0.0], grad_norm=0.0)
    assert [finding.id for finding in findings_of(on_the_cpu(), made)] == ["rehearsal.gradients"]
    online = on_the_cpu("grpo", max_completion_length=32)
    made = _judge(tmp_path / "online", [BEGIN, ENDED], [0.0], plan=online, grad_norm=0.0)
    assert made.passed
    assert any("they are zero" in str(check.reason) for check in made.checks if check.outcome == "skipped")


def test_what_was_raised_names_its_field_and_its_place(tmp_path: Path) -> None:
    plan = on_the_cpu(padding_free=True)
    message = "`max_length` is not enforced when padding_free=True without packing.\nSet it to None."
    made = _judge(tmp_path, [_failed("ValueError", message)], plan=plan, code=1, log="the log")
    assert (made.ended, made.at, made.tail) == ("raised", "building the trainer", "the log")
    assert made.raised and made.raised.field == "padding_free"  # the person set it
    assert made.raised.trace == ("trl/trainer/sft_trainer.py:1000 __init__",)
    (finding,) = findings_of(plan, made)
    assert finding.title.endswith("`max_length` is not enforced when padding_free=True without packing.")
    assert "Raised at trl/trainer/sft_trainer.py:1000" in finding.why


def test_a_refusal_with_legal_values_offers_them(tmp_path: Path) -> None:
    plan = on_the_cpu("grpo", num_generations=8, gradient_accumulation_steps=1)
    message = "generation_batch_size (2) must be divisible by num_generations (8)."
    (finding,) = findings_of(plan, _judge(tmp_path, [_failed("ValueError", message)], plan=plan, code=1))
    assert finding.fixes[0].changes == {"gradient_accumulation_steps": 4}


def test_an_error_of_the_data_names_the_row(tmp_path: Path) -> None:
    refused = Refusal(row=3, column="messages", error="TypeError: …")
    data = DatasetFacts(name="rows", split="train", columns=(), refused=refused)
    plan = msgspec.structs.replace(on_the_cpu(), data=data)
    trace = TRACE + '  File "/x/site-packages/trl/data_utils.py", line 7, in is_conversational\n'
    made = _judge(tmp_path, [_failed("TypeError", "it is no list", trace)], plan=plan, code=1)
    assert made.raised and made.raised.row == 3
    elsewhere = _judge(tmp_path / "two", [_failed("TypeError", "it is no list")], plan=plan, code=1)
    assert elsewhere.raised and elsewhere.raised.row is None


@pytest.mark.parametrize(
    ("kind", "message", "ended"),
    [
        ("OutOfMemoryError", "CUDA out of memory. Tried to allocate 20 GiB.", "out_of_memory"),
        ("AcceleratorError", "CUDA error: an illegal memory access was encountered", "illegal_access"),
        ("SystemExit", "1", "exited"),
        ("KeyError", "'prompt'", "raised"),
    ],
)
def test_ends_are_told_apart(tmp_path: Path, kind: str, message: str, ended: str) -> None:
    made = _judge(tmp_path, [_failed(kind, message)], code=1)
    assert made.ended == ended
    assert [finding.id for finding in findings_of(on_the_cpu(), made)] == [f"rehearsal.{ended}"]


def test_a_process_without_a_last_word_has_crashed(tmp_path: Path) -> None:
    log = "\n".join(
        (
            "Traceback (most recent call last):",
            '  File "launch.py", line 1, in main',
            "subprocess.CalledProcessError: Command '[...]' died with <Signals.SIGSEGV: 11>.",
        )
    )
    made = _judge(tmp_path, [BEGIN], code=1, log=log)
    assert (made.ended, "SIGSEGV" in str(made.ending)) == ("crashed", True)


def test_what_accelerate_refuses_is_told_by_its_log(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    run.attempt(1).mkdir(parents=True)
    run.output(1).write_text("usage: …\nAccelerate launch command: error: unrecognized arguments: --no_such_field 1\n")
    made = judged(on_the_cpu(), run, Heard(run, 2, lambda _: None), 2, hung=None)
    assert made.ended == "exited"
    assert "unrecognized arguments: --no_such_field" in str(made.ending)


def test_time_that_ran_out_says_where(tmp_path: Path) -> None:
    made = _judge(tmp_path, [BEGIN], [6.2], code=None, hung=300)
    assert (made.ended, made.at) == ("hung", "step 2 of 2")
    assert "300 s" in str(made.ending)


def test_warnings_of_the_libraries_are_kept(tmp_path: Path) -> None:
    warned = [
        {"event": "warning", "kind": "FutureWarning", "place": "x.py:1", "message": "this goes\naway"},
        {"event": "warning", "kind": "WARNING", "place": "trl", "message": "not recommended"},
    ]
    made = _judge(tmp_path, [*warned, BEGIN, ENDED], [6.2])
    assert made.warnings == ("FutureWarning: this goes away", "not recommended")


def test_a_field_is_one_of_the_plan_and_meant() -> None:
    plan = on_the_cpu(packing=True, attn_implementation="sdpa")
    assert pointed_field(plan, 'load it with `attn_implementation="eager"`') == "attn_implementation"
    assert pointed_field(plan, "set --packing or so") == "packing"
    assert pointed_field(plan, "the packing of things and the dtype of others") is None
    assert pointed_field(plan, "no such thing") is None
    smooth = with_values(plan, label_smoothing=0.0)
    assert pointed_field(smooth, "Label smoothing must be greater than 0.0") == "label_smoothing"
    assert pointed_field(plan, "'test'") == "dataset_test_split"


def test_frames_name_files_from_their_package_on() -> None:
    trace = TRACE + '  File "/home/me/rewards.py", line 3, in short\n'
    assert frames(trace) == ["trl/trainer/sft_trainer.py:1000 __init__", "/home/me/rewards.py:3 short"]
