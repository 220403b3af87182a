"""What the trainer makes of rows, as numbers and as findings."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kerneltui.advice.fit import fits
from kerneltui.facts.dataset import Column, DatasetFacts
from kerneltui.facts.prepared import Prepared, Refusal, TokenSequence
from tests.advice.situations import changes, findings

TEXT = (Column(name="text", type="text"),)


def _made(*tokens: int, loss: int | None = 1, eos: bool = True, **more: Any) -> Prepared:
    sequences = tuple(
        TokenSequence(row=row, name="text", tokens=length, loss_tokens=loss, has_eos=eos)
        for row, length in enumerate(tokens, 1)
    )
    return Prepared(**{"sequences": sequences, "constructed": True, "eos": "</s>", **more})


def _facts(**more: Any) -> DatasetFacts:
    return DatasetFacts(**{"name": "rows.jsonl", "split": "train", "columns": TEXT, "trainer": "sft", **more})


def test_lengths_become_shares() -> None:
    made = _made(10, 20, 30, 40, max_length=30)
    assert made.lengths == (10, 20, 30, 40)
    assert (made.rows, made.cut_share) == (4, 0.25)
    assert made.padding(2) == pytest.approx(1 - 90 / 100)
    assert made.padding(1) == 0


def test_a_row_that_the_trainer_refuses_blocks_with_its_place() -> None:
    refused = Refusal(error="TypeError: no", row=3, column="text")
    found = findings("sft", data=_facts(refused=refused))["data.format"]
    assert (found.severity, found.origin) == ("block", "asked")
    assert found.why == "Row 3, column text: TypeError: no."
    assert fits(_facts(refused=refused), "kto").reason.startswith("kto wants")
    assert "row 1, column text" in fits(_facts(refused=Refusal(error="no", row=1)), "sft").reason


def test_what_is_known_of_columns_gives_way_to_the_trainer() -> None:
    odd = (Column(name="text", type="text", odd_row=2, odd_type="null"),)
    assert fits(_facts(columns=odd), "sft").ok is False
    assert fits(_facts(columns=odd, prepared=_made(3)), "sft").ok is True
    assert fits(_facts(columns=odd, prepared=_made(3), trainer="dpo"), "sft").ok is False


def test_options_that_the_trainer_refuses_are_told_apart_from_rows() -> None:
    found = findings("sft", data=_facts(refused=Refusal(error="ValueError: eos_token")))
    assert "data.format" not in found
    assert found["data.options"].title == "sft refuses its options"


def test_rows_that_teach_nothing() -> None:
    none = findings("sft", data=_facts(prepared=_made(40, 50, dropped=(1, 2), max_length=30)))
    assert none["data.nothing_left"].severity == "block"
    some = findings("sft", data=_facts(prepared=_made(10, 50, dropped=(2,), max_length=30)))["data.left_out"]
    assert (some.severity, "row 2" in some.why) == ("warn", True)
    assert "data.nothing_left" in findings("sft", data=_facts(prepared=_made(9, 9, loss=0)))
    assert "data.left_out" not in findings("sft", data=_facts(prepared=_made(9, 9)))


def test_rows_without_an_end_and_rows_that_are_cut_are_warned_of() -> None:
    assert findings("sft", data=_facts(prepared=_made(9, eos=False)))["data.no_eos"].severity == "warn"
    cut = findings("sft", data=_facts(prepared=_made(9, 90, max_length=30)))["data.cut"]
    assert "50% of 2 rows" in cut.why
    assert changes(cut) == [{"max_length": 90}]
    assert "data.cut" not in findings("sft", data=_facts(prepared=_made(*[9] * 30, 90, max_length=30)))
    packed = _made(9, 90, max_length=30, packed=(30, 30, 30))
    assert "data.cut" not in findings("sft", data=_facts(prepared=packed))


def test_rows_that_were_read_for_another_trainer_say_nothing() -> None:
    made = _made(90, eos=False, dropped=(1,), max_length=30)
    assert not [
        name
        for name in findings("kto", data=_facts(prepared=made))
        if name.startswith("data.") and name != "data.format"
    ]


def test_a_column_that_a_reward_function_wants() -> None:
    data = _facts(trainer="grpo", columns=(Column(name="prompt", type="text"),))
    assert "data.reward.accuracy_reward" not in findings("grpo", data=data)
    lacks = {"accuracy_reward": ("solution",)}
    found = findings("grpo", data=msgspec.structs.replace(data, reward_lacks=lacks))["data.reward.accuracy_reward"]
    assert (found.severity, found.title) == ("block", "accuracy_reward needs the column solution")


def test_data_that_cannot_be_read_blocks_where_it_is_at_fault_itself() -> None:
    reason = {"data": "rows.csv is not UTF-8 text\nSave it as UTF-8."}
    for more, severity in (({}, "warn"), ({"data_at_fault": True}, "block"), ({"elsewhere": True}, "note")):
        found = findings("sft", unknown=reason, **more)["data.unread"]
        assert (found.severity, found.title) == (severity, "rows.csv is not UTF-8 text")
