"""How the preflight's process ends is told apart, with what was being tried and the end of its output."""

from __future__ import annotations

import threading
from pathlib import Path

import msgspec
import pytest

from kerneltui.advice.situation import Situation
from kerneltui.advice.subject import subject_of
from kerneltui.errors import KerneltuiError
from kerneltui.facts.proof import AttentionShape, Subject
from kerneltui.facts.server import Gpu
from kerneltui.prove.card import no_room, trial_environment
from kerneltui.prove.preflight import Limits, Preflighting
from kerneltui.show_proof import preflight_lines
from tests.advice.situations import GQA, H200, make_build, make_server, make_situation
from tests.prove.dying import make_interpreter

MODEL = msgspec.structs.replace(GQA, attention=(AttentionShape(heads=14, kv_heads=2, head_dim=64),))
KERNEL = {"attn_implementation": "kernels-community/flash-attn2@v2"}


def _situation(tmp_path: Path) -> Situation:
    found = make_situation(server=make_server(), model=MODEL, given=KERNEL, build=make_build())
    plan = msgspec.structs.replace(found.plan, cwd=str(tmp_path))
    return msgspec.structs.replace(found, plan=plan)


@pytest.mark.parametrize(
    ("way", "ended", "words"),
    [
        ("crashed", "crashed", "was killed by the kernel (signal 11) at two"),
        ("exited", "exited", "was ended by the kernel (exit code 1) at two"),
        ("exits", "exited", "was ended by the kernel (SystemExit: no such device) at two"),
        ("hung", "hung", "hung, and was ended (it did not answer in time and was ended) at two"),
        ("illegal", "illegal_access", "broke the GPU's context (BrokenDeviceError: CUDA error: an illegal memory"),
        ("memory", "out_of_memory", "found no memory on the card"),
        (
            "refuses",
            "raised",
            "raised (ValueError: An error occurred while trying to load from 'a/b': undefined symbol",
        ),
    ],
)
def test_how_the_process_ended_is_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, ended: str, words: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    limits = Limits(case=1) if way == "hung" else Limits()
    made = Preflighting(_situation(tmp_path), make_interpreter(tmp_path, way), limits=limits).run()
    assert (made.ended, made.passed) == (ended, False)
    text = "\n".join(preflight_lines(made))
    assert words in text
    if way != "refuses":
        assert [(it.case, it.outcome) for it in made.checks] == [
            ("one", "passed"),
            ("two", "skipped"),
            ("three", "skipped"),
        ]
        assert "half a word" in (made.tail or "")
    kept = Preflighting(_situation(tmp_path), make_interpreter(tmp_path, "well"))
    assert kept.run().cached is (ended != "out_of_memory")


def test_a_preflight_that_comes_to_its_end_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    told: list[str] = []
    made = Preflighting(_situation(tmp_path), make_interpreter(tmp_path, "well")).run(told.append)
    assert made.passed and not made.cached and made.tail is None
    assert [it.implementation for it in made.speed] == ["a/b", "sdpa", "eager"]
    assert "2 of 3: two" in told
    again = Preflighting(_situation(tmp_path), make_interpreter(tmp_path, "crashed")).run()
    assert again.cached and again.checks == made.checks
    anew = Preflighting(_situation(tmp_path), make_interpreter(tmp_path, "crashed"), again=True).run()
    assert anew.ended == "crashed"


def test_a_preflight_can_be_ended(tmp_path: Path) -> None:
    trial = Preflighting(_situation(tmp_path), make_interpreter(tmp_path, "hung"), again=True)

    def tell(text: str) -> None:
        if text.startswith("2 of"):
            threading.Timer(0.1, trial.cancel).start()

    with pytest.raises(KerneltuiError, match="The preflight was ended"):
        trial.run(tell)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"model": None}, "the model's configuration is not known"),
        ({"model": GQA}, "nothing is known of attention in qwen2: its configuration names no heads"),
        ({"build": None}, "kernels-community/flash-attn2@v2 has no build that loads here"),
        ({"elsewhere": True}, "the plan is for another machine"),
    ],
)
def test_why_there_is_nothing_to_try(tmp_path: Path, changes: dict[str, object], reason: str) -> None:
    situation = msgspec.structs.replace(_situation(tmp_path), **changes)
    assert subject_of(situation) == reason
    with pytest.raises(KerneltuiError, match="There is nothing to try"):
        Preflighting(situation, Path("/nowhere")).run()


def test_the_subject_is_the_card_the_build_and_the_shapes() -> None:
    server = make_server(H200)
    situation = make_situation(server=server, model=MODEL, given={**KERNEL, "packing": True}, build=make_build())
    subject = subject_of(situation)
    assert isinstance(subject, Subject)
    assert (subject.device, subject.capability, subject.driver) == (H200[0], H200[1], server.driver)
    assert (subject.commit, subject.variant) == (make_build().commit, make_build().variant)
    assert (subject.dtype, subject.length, subject.batch, subject.packed) == ("bfloat16", 1024, 8, True)
    assert subject.shapes == MODEL.attention


def test_a_native_name_has_no_commit() -> None:
    subject = subject_of(make_situation(model=MODEL, given={"attn_implementation": "sdpa"}))
    assert isinstance(subject, Subject)
    assert (subject.implementation, subject.commit, subject.variant) == ("sdpa", None, None)


def test_the_trial_sees_the_first_card_of_the_plan() -> None:
    server = make_server(H200, H200, H200)
    assert trial_environment(make_situation(server=server, gpus=(2, 1)))["CUDA_VISIBLE_DEVICES"] == "2"
    assert trial_environment(make_situation(server=server))["CUDA_VISIBLE_DEVICES"] == "0"
    assert trial_environment(make_situation(server=server, given={"use_cpu": True}))["CUDA_VISIBLE_DEVICES"] == ""


def test_a_full_card_is_a_reason() -> None:
    server = make_server(H200)
    full = Gpu(index=0, name="NVIDIA H200", capability=(9, 0), memory_total=141 << 30, memory_free=1 << 30)
    situation = make_situation(server=msgspec.structs.replace(server, gpus=(full,)))
    reason = "NVIDIA H200 (GPU 0) has 1.0 of 141 GiB free, and this takes up to 4 GiB"
    assert no_room(situation, 4 << 30) == reason
    assert no_room(situation, 1 << 30) is None
