"""What the screens share: the asker and the Hub of a plan's variables, and the looks at data that were made."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

from kerneltui.advice.situation import Situation
from kerneltui.facts.dataset import Column, DatasetFacts
from kerneltui.facts.model_memory import ModelMemory
from kerneltui.plan.construction import Construction
from kerneltui.tui.session import Session
from tests.advice.situations import make_situation

HERE = "http://127.0.0.1:9"


def test_other_variables_get_another_asker_and_hub(tmp_path: Path) -> None:
    session = Session(Path(sys.executable), tmp_path, endpoint=HERE)
    asker = session.asker
    session.use({"LOCAL_KERNELS": "a/b=/c"})  # goes with each question
    assert session.asker is asker
    session.use({"HF_ENDPOINT": "http://127.0.0.1:8"})
    assert session.asker is not asker
    assert session.hub.endpoint == "http://127.0.0.1:8"
    session.use({})
    assert session.hub.endpoint == HERE
    session.close()


def test_data_and_trainers_are_asked_once_for_what_they_depend_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []
    asked: list[str] = []

    def look(situation: Situation, _: object) -> Situation:
        looks.append(situation.plan.trainer)
        facts = DatasetFacts(name="rows.jsonl", split="train", columns=(Column(name="text", type="text"),))
        return msgspec.structs.replace(situation, data=facts)

    def ask(situation: Situation, _: object) -> Situation:
        asked.append(situation.plan.trainer)
        return msgspec.structs.replace(situation, construction=Construction(said=(situation.plan.trainer,)))

    monkeypatch.setattr("kerneltui.tui.session.with_construction", ask)
    monkeypatch.setattr("kerneltui.tui.session.with_data", look)
    session = Session(Path(sys.executable), tmp_path, endpoint=HERE)
    sft, dpo = (make_situation(trainer, given={"dataset_name": "a/b", "use_cpu": True}) for trainer in ("sft", "dpo"))
    assert session.known_data(sft) == (sft, False)
    found = session.with_data(sft)
    assert session.known_data(sft) == (found, True)
    stand_in, whole = session.known_data(dpo)
    assert (stand_in.data, whole) == (found.data, False)
    other = make_situation(given={"dataset_name": "a/c", "use_cpu": True})
    assert session.known_data(other) == (other, False)
    session.forget_data()
    assert session.known_data(sft) == (sft, False)
    assert looks == ["sft"]
    assert asked == ["sft"]
    session.with_data(msgspec.structs.replace(sft, attention=dpo.attention))
    session.with_data(make_situation(given={"dataset_name": "a/b", "packing": True, "use_cpu": True}))
    assert asked == ["sft", "sft", "sft"]
    session.close()


def test_a_trainer_that_cannot_be_asked_leaves_the_data_to_be_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = DatasetFacts(name="rows.jsonl", split="train", columns=(Column(name="text", type="text"),))
    session = Session(Path(sys.executable), tmp_path, endpoint=HERE)
    monkeypatch.setattr(
        "kerneltui.tui.session.with_construction",
        lambda situation, _: msgspec.structs.replace(situation, unknown={"construction": "why"}),
    )
    monkeypatch.setattr(
        "kerneltui.tui.session.with_data", lambda situation, _: msgspec.structs.replace(situation, data=facts)
    )
    found = session.with_data(make_situation(given={"dataset_name": "a/b", "use_cpu": True}))
    assert (found.data, found.construction, found.unknown) == (facts, None, {"construction": "why"})
    session.close()


def test_memory_is_counted_once_for_each_way_of_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[object] = []

    def count(situation: Situation, _: object) -> Situation:
        counted.append(situation.settings.get("gradient_checkpointing"))
        memory = ModelMemory(parameters=1, embedding=1, head=1, tied=True)
        return msgspec.structs.replace(situation, memory=memory)

    def ask(situation: Situation, _: object) -> Situation:
        return msgspec.structs.replace(situation, construction=Construction())

    monkeypatch.setattr("kerneltui.tui.session.with_construction", ask)
    monkeypatch.setattr("kerneltui.tui.session.with_memory", count)
    session = Session(Path(sys.executable), tmp_path, endpoint=HERE)
    kept, again = (
        make_situation(given={"dataset_name": None, "gradient_checkpointing": wanted}) for wanted in (False, True)
    )
    assert session.known_data(kept) == (kept, False)
    found = session.with_data(kept)
    assert found.memory is not None
    assert session.known_data(kept) == (found, True)
    assert session.known_data(again)[1] is False
    session.with_data(again)
    session.with_data(kept)
    assert counted == [False, True]
    session.close()
