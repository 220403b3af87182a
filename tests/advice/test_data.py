"""Which trainers can read which data, held against the real trainers (in the slow tier)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kerneltui.advice.fit import fits, fitting_trainers
from kerneltui.facts.dataset import Column, DatasetFacts
from kerneltui.worker.datasets_adapter import column_facts
from tests.advice.situations import blocks, changes, findings

TRAINERS = ("sft", "dpo", "kto", "reward", "grpo", "rloo", "distillation")


def _user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def _says(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


CHAT = [_user("hi"), _says("hello")]
FROM = [{"from": "user", "value": "hi"}, {"from": "assistant", "value": "hello"}]
TABLES: dict[str, list[dict[str, Any]]] = {
    "text": [{"text": "a b c"}] * 4,
    "messages": [{"messages": CHAT}] * 4,
    "from/value": [{"conversations": FROM}] * 4,
    "conversations with roles": [{"conversations": CHAT}] * 4,
    "prompt, completion": [{"prompt": "hi", "completion": " there"}] * 4,
    "prompt, completion (messages)": [{"prompt": [_user("hi")], "completion": [_says("hello")]}] * 4,
    "prompt text, completion messages": [{"prompt": "hi", "completion": [_says("hello")]}] * 4,
    "prompt, text": [{"prompt": "hi", "text": "hi there"}] * 4,
    "prompt, messages": [{"prompt": "hi", "messages": CHAT}] * 4,
    "prompt": [{"prompt": "hi"}] * 4,
    "prompt (messages)": [{"prompt": [_user("hi")]}] * 4,
    "preference": [{"prompt": "hi", "chosen": " yes", "rejected": " no"}] * 4,
    "preference (messages)": [{"prompt": [_user("hi")], "chosen": [_says("yes")], "rejected": [_says("no")]}] * 4,
    "preference without prompt": [{"chosen": "hi yes", "rejected": "hi no"}] * 4,
    "preference without prompt (messages)": [
        {"chosen": [_user("hi"), _says("yes")], "rejected": [_user("hi"), _says("no")]}
    ]
    * 4,
    "preference, prompt text": [{"prompt": "hi", "chosen": [_says("yes")], "rejected": [_says("no")]}] * 4,
    "chosen alone": [{"prompt": "hi", "chosen": " yes"}] * 4,
    "labels": [{"prompt": "hi", "completion": " a", "label": it} for it in (True, False, True, False)],
    "labels (messages)": [
        {"prompt": [_user("hi")], "completion": [_says("a")], "label": it} for it in (True, False, True, False)
    ],
    "labels as numbers": [{"prompt": "hi", "completion": " a", "label": it} for it in (1, 0, 1, 0)],
    "labels as words": [{"prompt": "hi", "completion": " a", "label": it} for it in ("good", "bad") * 2],
    "labels without prompt": [{"completion": " a", "label": it} for it in (True, False, True, False)],
    "stepwise": [{"prompt": "hi", "completions": ["a", "b"], "labels": [True, False]}] * 4,
    "question, answer": [{"question": "hi", "answer": "there"}] * 4,
    "tokens": [{"input_ids": [5, 6, 7, 2]}] * 4,
    "text with a gap": [{"text": "a b"}, {"text": None}] * 2,
    "text that is a number": [{"text": 1}] * 4,
    "messages that are text": [{"messages": "hello"}] * 4,
    "messages with an empty one": [{"messages": CHAT}, {"messages": []}] * 2,
    "text and messages": [{"text": "a b", "messages": CHAT}] * 4,
}
_SFT = {
    *("text", "messages", "from/value", "prompt, completion", "prompt, completion (messages)", "labels", "tokens"),
    *("labels (messages)", "labels as numbers", "labels as words", "text and messages"),
}
_PAIRS = {
    *("preference", "preference (messages)", "preference without prompt", "preference without prompt (messages)"),
}
_PROMPTS = {name for name, rows in TABLES.items() if "prompt" in rows[0]}
ACCEPTED = {
    "sft": _SFT,
    "dpo": _PAIRS,
    "reward": _PAIRS,
    "kto": _PAIRS | {"labels", "labels (messages)", "labels as numbers"},
    # The column `completions` collides with the argument of that name of every reward function.
    "grpo": _PROMPTS - {"stepwise"},
    "rloo": _PROMPTS - {"stepwise"},
    "distillation": _PROMPTS,
}


def facts(rows: list[dict[str, Any]], **more: Any) -> DatasetFacts:
    columns = tuple(msgspec.convert(column_facts(name, rows), Column) for name in rows[0])
    return DatasetFacts(name="rows.jsonl", split="train", columns=columns, **more)


@pytest.mark.parametrize("trainer", TRAINERS)
def test_the_data_that_each_trainer_reads(trainer: str) -> None:
    found = {name: fits(facts(rows), trainer) for name, rows in TABLES.items()}
    assert {name for name, fit in found.items() if fit.ok} == ACCEPTED[trainer]
    assert all(fit.ok is not None and fit.reason for fit in found.values())


@pytest.mark.full
@pytest.mark.parametrize("trainer", TRAINERS)
def test_the_real_trainer_reads_the_same(trainer: str) -> None:
    cases = [[trainer, rows] for rows in TABLES.values()]
    done = subprocess.run(
        [sys.executable, "-m", "tests.advice.real_trainers"], cwd=Path(__file__).parents[2],
        input=json.dumps({"cases": cases}), capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    results = dict(zip(TABLES, map(json.loads, done.stdout.splitlines()), strict=True))
    assert {name for name, result in results.items() if result == "ok"} == ACCEPTED[trainer], results


def test_reasons_name_what_is_wanted_and_what_is_there() -> None:
    assert fits(facts(TABLES["prompt, messages"]), "sft").reason == (
        "where there is a prompt, sft wants a completion too; the columns are prompt, messages"
    )
    assert fits(facts(TABLES["text with a gap"]), "sft").reason == (
        "row 2 has null in the column text, where row 1 has text"
    )
    assert "both must be one" in fits(facts(TABLES["preference, prompt text"]), "dpo").reason
    assert fits(facts(TABLES["labels as words"]), "kto").reason == (
        "label is true or false for kto, and here it is text"
    )


def test_lists_of_words_are_no_prompts() -> None:
    """A tokenizer takes a list of words for text that is cut into words already: TRL would train on it."""
    assert fits(facts([{"prompt": ["a", "b"]}]), "grpo").reason == "prompt is neither text nor messages: list of text"
    assert fits(facts([{"prompt": {"a": "b"}}]), "distillation").ok is False


def test_what_is_not_known_is_not_judged() -> None:
    assert fits(None, "sft").ok is None
    assert fits(facts(TABLES["text"]), "ppo").ok is None
    assert fits(facts([{"images": [], "messages": CHAT}]), "sft").ok is None


def test_trainers_that_can_read_the_data_come_first() -> None:
    order = fitting_trainers(facts(TABLES["preference"]), ("distillation", "sft", "ppo", "dpo", "kto"))
    assert list(order) == ["distillation", "dpo", "kto", "ppo", "sft"]


def test_data_that_does_not_fit_blocks_and_names_the_trainers_that_it_fits() -> None:
    found = findings("dpo", data=facts(TABLES["messages"]))["data.format"]
    assert found.severity == "block"
    assert found.title == "dpo cannot train on rows.jsonl"
    assert found.why.endswith("It fits sft.")
    assert not blocks("sft", data=facts(TABLES["messages"]))
    assert not blocks("dpo", data=facts(TABLES["preference"]))
    assert not blocks("dpo", data=None)


def test_the_only_column_of_text_can_be_named_instead() -> None:
    data = facts([{"id": 1, "content": "a b"}])
    assert changes(findings("sft", data=data)["data.format"]) == [{"dataset_text_field": "content"}]
    assert not blocks("sft", data=data, given={"dataset_text_field": "content"})


def test_data_that_trl_is_told_to_leave_alone_is_not_judged() -> None:
    skip = {"dataset_kwargs": {"skip_prepare_dataset": True}}
    assert not blocks("sft", data=facts(TABLES["question, answer"]), given=skip)


def test_messages_need_a_chat_template() -> None:
    chat = facts(TABLES["messages"], conversational=True, chat_template=False)
    found = findings("sft", data=chat)["data.chat_template"]
    assert (found.severity, list(changes(found)[0])) == ("block", ["chat_template_path"])
    assert changes(findings("dpo", data=facts(
        TABLES["preference (messages)"], conversational=True, chat_template=False
    ))["data.chat_template"]) == []  # fmt: skip
    assert not blocks("sft", data=chat, given={"chat_template_path": "a/model"})
    for template in (True, None):
        assert not blocks("sft", data=facts(TABLES["messages"], conversational=True, chat_template=template))
    assert not blocks("sft", data=facts(TABLES["text"], chat_template=False))
