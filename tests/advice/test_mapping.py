"""Columns that could serve a trainer, and the copies that make it so."""

from __future__ import annotations

from typing import Any

import pytest

from kerneltui.advice.finding import Fix
from kerneltui.advice.fit import fits
from kerneltui.advice.mapping import mapped, propose, rename_roles
from kerneltui.data_report import find_mapping
from kerneltui.errors import UsageError
from kerneltui.facts.dataset import Column, DatasetFacts
from kerneltui.facts.mapping import ColumnMapping
from tests.advice.situations import findings

TALK, SHARE = "messages", "from/value messages"


def _data(types: dict[str, str], **more: Any) -> DatasetFacts:
    columns = tuple(Column(name=name, type=kind) for name, kind in types.items())
    return DatasetFacts(name="rows.jsonl", split="train", columns=columns, **more)


QUESTIONS = {"question": "text", "answer": "text"}
ALPACA = {"instruction": "text", "input": "text", "output": "text"}
PAIR = {"question": "text", "response_chosen": "text", "response_rejected": "text"}
CASES: list[tuple[str, dict[str, str], dict[str, tuple[str, ...]] | None]] = [
    ("sft", {"question": "text", "answer": "text"}, {"prompt": ("question",), "completion": ("answer",)}),
    ("sft", ALPACA, {"prompt": ("instruction", "input"), "completion": ("output",)}),
    ("sft", {"conversation": TALK, "id": "int"}, {"messages": ("conversation",)}),
    ("sft", {"conversations": TALK}, {"messages": ("conversations",)}),
    ("sft", {"prompt": "text", "chosen": "text"}, {"prompt": ("prompt",), "completion": ("chosen",)}),
    ("sft", {"chosen": TALK, "rejected": TALK}, {"messages": ("chosen",)}),
    ("sft", {"Question": "text", "Answer": "text"}, {"prompt": ("Question",), "completion": ("Answer",)}),
    ("sft", {"a": "text", "b": "text"}, None),
    ("sft", {"question": "text", "answer": "text", "image": "image"}, None),
    ("gkd", {"question": "text", "answer": "text"}, {"messages": ("question", "answer")}),
    ("gold", {"conversations": SHARE}, {"messages": ("conversations",)}),
    ("dpo", PAIR, {"prompt": ("question",), "chosen": ("response_chosen",), "rejected": ("response_rejected",)}),
    ("reward", {"prompt": "text", "chosen": TALK, "rejected": TALK}, {
        "chosen": ("chosen",), "rejected": ("rejected",),
    }),
    ("tpo", {**PAIR, "gold": "text"}, {
        "prompt": ("question",), "chosen": ("response_chosen",), "rejected": ("response_rejected",),
        "reference": ("gold",),
    }),
    ("dpo", {"question": "text", "answer": "text"}, None),
    ("kto", {"question": "text", "answer": "text", "is_good": "bool"}, {
        "prompt": ("question",), "completion": ("answer",), "label": ("is_good",),
    }),
    ("grpo", {"problem": "text", "solution": "text"}, {"prompt": ("problem",)}),
    ("rloo", {"messages": TALK}, {"prompt": ("messages",)}),
    ("distillation", {"text": "text"}, None),
]  # fmt: skip


@pytest.mark.parametrize(("trainer", "types", "columns"), CASES)
def test_columns_that_could_serve(
    trainer: str, types: dict[str, str], columns: dict[str, tuple[str, ...]] | None
) -> None:
    data = _data(types)
    found = propose(data, trainer)
    assert (found.columns if found else None) == columns
    if found:
        assert fits(mapped(data, found), trainer).ok


def test_text_becomes_messages_where_the_model_has_a_template() -> None:
    types = {"system_prompt": "text", "question": "text", "response": "text"}
    for template in (True, False, None):
        found = propose(_data(types, chat_template=template), "sft")
        assert found is not None
        assert (found.chat, found.system) == (template is True, "system_prompt")
    talk = propose(_data({"conversation": TALK, "system": "text"}, chat_template=True), "sft")
    assert talk is not None
    assert (talk.chat, talk.system) == (False, None)


def test_what_reward_functions_want_is_found_too() -> None:
    data = _data({"question": "text", "answer": "text"}, reward_lacks={"accuracy_reward": ("solution",)})
    found = propose(data, "grpo")
    assert found is not None
    assert found.columns == {"prompt": ("question",), "solution": ("answer",)}


def test_roles_get_the_names_that_templates_know() -> None:
    rows: tuple[dict[str, Any], ...] = ({"conversations": [{"from": "human", "value": "a"}, {"from": "gpt"}]},)
    data = DatasetFacts(name="a", split="train", columns=(Column(name="conversations", type=SHARE),), rows=rows)
    found = rename_roles(data, "sft")
    assert found == ColumnMapping(columns={"messages": ("conversations",)}, roles={"gpt": "assistant", "human": "user"})
    assert rename_roles(_data({"messages": TALK}), "sft") is None
    finding = findings("sft", data=data)["data.roles"]
    assert (finding.severity, finding.fixes[0].mapping) == ("warn", found)


def test_the_finding_says_what_it_writes_and_how_from_a_shell() -> None:
    (fix,) = findings("sft", data=_data(QUESTIONS, chat_template=True))["data.format"].fixes
    assert fix == Fix(
        label="Write a copy of the data with question as prompt, answer as completion, in messages",
        command=fix.command,
        mapping=ColumnMapping(columns={"prompt": ("question",), "completion": ("answer",)}, chat=True),
    )
    assert fix.by_key
    assert (fix.command or "").startswith("kerneltui data sft ")
    assert (fix.command or "").endswith(" --write auto")


def test_a_mapping_is_named_by_pairs() -> None:
    data = _data({"q": "text", "a": "text", "b": "text"})
    assert find_mapping(data, "sft", ["prompt=q+b", "completion=a"]).columns == {
        "prompt": ("q", "b"), "completion": ("a",),
    }  # fmt: skip
    for pairs, said in ((["prompt=c"], "no column c"), (["prompt"], "maps nothing"), (["prompt=q"], "could not read")):
        with pytest.raises(UsageError, match=said):
            find_mapping(data, "sft", pairs)
    with pytest.raises(UsageError, match="No mapping is known"):
        find_mapping(data, "sft")
