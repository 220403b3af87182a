"""What two releases of TRL say of the same options (recorded), and what is made of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kerneltui import demo
from kerneltui.advice.finding import Finding
from kerneltui.advice.limits import LIMITS
from kerneltui.interpreter import Asker, find_interpreter
from kerneltui.plan.construction import Construction
from kerneltui.records import from_builtins
from tests.advice.situations import H200, blocks, changes, findings, make_server
from tests.advice.version_cases import CASES, NEW, OLD, Case

ANSWERS = Path(__file__).with_name("answers")
RECORDED: dict[str, Any] = {
    release: json.loads((ANSWERS / f"trl-{release}.json").read_text("utf-8")) for release in (OLD, NEW)
}
BY_RELEASE = [(case, release, case.old if release == OLD else case.new) for case in CASES for release in RECORDED]


def _construction(case: Case, release: str) -> Construction:
    return from_builtins(RECORDED[release]["answers"][case.name], Construction, "a recorded answer")


def _found(case: Case, release: str, **facts: Any) -> dict[str, Finding]:
    transformers = {OLD: "5.14.1", NEW: "5.22.2"}[release]
    server = make_server(H200, trl=release, transformers=transformers, kernels=None)
    return findings(case.trainer, server=server, given=case.given, **facts)


def test_the_recorded_environments_are_those_of_the_cases() -> None:
    assert {release: it["versions"]["trl"] for release, it in RECORDED.items()} == {OLD: OLD, NEW: NEW}
    assert RECORDED[OLD]["versions"]["transformers"] == "5.14.1"
    assert all(set(it["answers"]) == {case.name for case in CASES} for it in RECORDED.values())


@pytest.mark.parametrize(("case", "release", "words"), BY_RELEASE, ids=lambda it: getattr(it, "name", None) or str(it))
def test_each_release_gives_its_own_answer(case: Case, release: str, words: str | None) -> None:
    made = _construction(case, release)
    found = _found(case, release, construction=made)
    asked = [it for it in found.values() if it.id.startswith("configuration.") and it.severity == "block"]
    if words is None:
        assert made.refused is None
        assert not asked
    else:
        assert made.refused is not None
        assert words in made.refused.message
        assert [it.origin for it in asked] == ["asked"]
        assert asked[0].fixes


@pytest.mark.parametrize(("case", "release", "words"), BY_RELEASE, ids=lambda it: getattr(it, "name", None) or str(it))
def test_what_is_known_without_asking_is_what_it_says(case: Case, release: str, words: str | None) -> None:
    known = {name for name in _found(case, release) if name.startswith("limits.")}
    expected = {case.limit} if case.limit and words else set()
    assert known <= set((case.limit or "").split())
    assert bool(known) == bool(expected)
    assert not {name for name in _found(case, release, construction=Construction()) if name.startswith("limits.")}


def test_every_limit_has_a_case_that_it_refuses_and_one_that_it_does_not() -> None:
    named = {name for case in CASES if case.limit for name in case.limit.split()}
    assert named == {limit.id for limit in LIMITS}
    for limit in LIMITS:
        assert any(not case.limit and case.trainer in limit.trainers for case in CASES)


def test_warnings_are_notes_and_not_said_twice() -> None:
    old_loss = next(case for case in CASES if case.name == "g5 sft chunked alone")
    found = _found(old_loss, NEW, construction=_construction(old_loss, NEW))
    assert found["configuration.warned.loss_type"].severity == "note"
    assert "configuration.warned.loss_type" not in _found(old_loss, OLD, construction=_construction(old_loss, OLD))
    liger = next(case for case in CASES if case.name == "g5 sft liger alone")
    assert _construction(liger, NEW).said
    assert [name for name in _found(liger, NEW, construction=_construction(liger, NEW)) if "liger" in name] == [
        "trainer.liger_deprecated"
    ]


def test_trackers_that_are_not_installed_block() -> None:
    made = Construction(missing=("wandb",), unknown=("tensorbord",), known=("tensorboard", "wandb"))
    given = {"report_to": ["wandb", "tensorbord"]}
    found = findings(given=given, construction=made)
    assert found["configuration.report_to"].severity == "block"
    assert blocks(given=given, construction=Construction()) == set()
    only = findings(given={"report_to": "wandb"}, construction=Construction(missing=("wandb",)))
    assert only["configuration.report_to"].fixes[0].command == "/opt/train/bin/python -m pip install wandb"
    assert changes(only["configuration.report_to"])[1] == {"report_to": "none"}
    near = findings(given={"report_to": "wand"}, construction=Construction(unknown=("wand",), known=("wandb",)))
    assert changes(near["configuration.report_to"])[0] == {"report_to": "wandb"}


def test_a_trainer_that_was_not_asked_is_named() -> None:
    found = findings(unknown={"construction": "this machine has another trl"})
    assert found["configuration.not_asked"].severity == "note"
    assert "configuration.not_asked" not in findings(construction=Construction())


@pytest.fixture(scope="module")
def asker() -> Iterator[Asker]:
    with Asker(find_interpreter()) as asker:
        yield asker


@pytest.mark.full
def test_the_installed_trl_says_what_was_recorded_of_its_release(asker: Asker) -> None:
    release = asker.ask("packages")["trl"]["version"]
    if release not in RECORDED:
        pytest.skip(f"nothing was recorded of TRL {release}")
    wrong = []
    for case in CASES:
        answer = asker.ask(
            "trl.construct", trainer=case.trainer, values=case.given, model=str(demo.model_path()), rewards=1
        )
        said, recorded = answer["refused"], RECORDED[release]["answers"][case.name]["refused"]
        if (said and said["message"]) != (recorded and recorded["message"]):
            wrong.append((case.name, said, recorded))
    assert not wrong


@pytest.mark.full
def test_each_fix_mends_what_the_trainer_refused(asker: Asker) -> None:
    left = []
    for case in CASES:
        made = _construction(case, NEW)
        if made.refused is None:
            continue
        found = _found(case, NEW, construction=made)
        finding = next(it for it in found.values() if it.id.startswith("configuration.") and it.severity == "block")
        for fix in finding.fixes:
            given = {**case.given, **fix.changes}
            given = {name: value for name, value in given.items() if value is not None} | dict.fromkeys(fix.nulls)
            answer = asker.ask("trl.construct", trainer=case.trainer, values=given, model=str(demo.model_path()))
            if answer["refused"]:
                left.append((case.name, fix.label, answer["refused"]["message"]))
    assert not left
