"""Rows as a mapping writes them; that the copy trains is held in the full tier with the real trainers."""

from __future__ import annotations

from typing import Any

from kerneltui.worker.dataset_copy import mapped


def _mapped(row: dict[str, Any], columns: dict[str, list[str]], **more: Any) -> dict[str, Any]:
    return mapped(row, **{"columns": columns, "system": None, "chat": False, "roles": {}, **more})


ALPACA = {"prompt": ["instruction", "input"], "completion": ["output"]}


def test_texts_are_joined_and_become_messages() -> None:
    row = {"instruction": "Add", "input": "2 2", "output": "4", "s": "Be brief", "id": 7, "text": "whole"}
    assert _mapped(row, ALPACA) == {"prompt": "Add\n\n2 2", "completion": "4", "s": "Be brief", "id": 7}
    assert _mapped({**row, "input": " "}, ALPACA)["prompt"] == "Add"
    assert _mapped({**row, "output": None}, ALPACA)["completion"] is None
    chat = _mapped(row, ALPACA, system="s", chat=True)
    assert chat == {
        "prompt": [{"role": "system", "content": "Be brief"}, {"role": "user", "content": "Add\n\n2 2"}],
        "completion": [{"role": "assistant", "content": "4"}],
        "id": 7,
    }
    assert _mapped(row, ALPACA, system="s")["prompt"] == "Be brief\n\nAdd\n\n2 2"
    assert _mapped(row, {"messages": ["instruction", "output"]})["messages"] == [
        {"role": "user", "content": "Add"}, {"role": "assistant", "content": "4"},
    ]  # fmt: skip


def test_conversations_are_renamed_and_a_prompt_ends_with_the_question() -> None:
    talk = [{"from": "human", "value": "Chào"}, {"from": "gpt", "value": "你好"}]
    roles = {"human": "user", "gpt": "assistant"}
    row = {"conversations": talk, "prompt": "x"}
    found = _mapped(row, {"messages": ["conversations"]}, roles=roles)
    assert found == {"messages": [{"role": "user", "content": "Chào"}, {"role": "assistant", "content": "你好"}]}
    assert talk[0] == {"from": "human", "value": "Chào"}, "the row itself stays as it is"
    assert _mapped(row, {"prompt": ["conversations"]}, roles=roles)["prompt"] == [{"role": "user", "content": "Chào"}]
    assert _mapped({"x": [1, 2], "label": True}, {"label": ["label"], "ids": ["x"]}) == {"label": True, "ids": [1, 2]}
