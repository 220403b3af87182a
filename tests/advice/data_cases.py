"""A table of small data files, right and wrong, each with a trainer: what the product says of them and what the real
trainer does must be the same (`test_data_truth.py`). The files are written by `Case.write`.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

Row = dict[str, Any]


class Case(NamedTuple):
    """One file for one trainer. `said` are words that a refusal must hold: the row, the column, or the line."""

    name: str
    trainer: str
    content: bytes | Callable[[Path], None]
    said: tuple[str, ...] = ()
    ending: str = "jsonl"
    options: dict[str, Any] = {}

    def write(self, folder: Path) -> Path:
        """Write the file of this case and return its path."""
        path = folder / f"{self.name.replace(' ', '-')}.{self.ending}"
        path.write_bytes(self.content) if isinstance(self.content, bytes) else self.content(path)
        return path


def lines(*rows: Row, encoding: str = "utf-8") -> bytes:
    """Return rows as JSON lines."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode(encoding)


def _parquet(*rows: Row) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(rows)), path)

    return write


def user(content: Any) -> Row:
    """Return a message of the user."""
    return {"role": "user", "content": content}


def says(content: Any, **more: Any) -> Row:
    """Return a message of the assistant."""
    return {"role": "assistant", "content": content, **more}


def _system(content: str) -> Row:
    return {"role": "system", "content": content}


CHAT = {"messages": [user("hi"), says("hello there")]}
PAIR = {"prompt": "What is 2+2? ", "chosen": "4", "rejected": "5"}
CHAT_PAIR = {"prompt": [user("2+2?")], "chosen": [says("4")], "rejected": [says("5")]}
LABEL = {"prompt": "hi", "completion": " you", "label": True}
ASK = {"prompt": [user("2+2?")]}
_TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}
_CALL: Row = {"role": "assistant", "content": None, "tool_calls": [{"type": "function", "function": {"name": "add"}}]}
_LONG = "word " * 80


def _four(row: Row, **third: Any) -> bytes:
    """Return four rows, of which the third differs."""
    return lines(row, row, {**row, **third}, row)


SFT = [
    Case("text", "sft", _four({"text": "a b c"})),
    Case("text in Chinese", "sft", _four({"text": "人工智能正在改变世界。"}, text="机器学习")),
    Case("messages in Vietnamese", "sft", lines({"messages": [user("Xin chào!"), says("Chào bạn, khoẻ không?")]})),
    Case("text with a byte order mark", "sft", b"\xef\xbb\xbf" + lines({"text": "a"}, {"text": "b"})),
    Case("text in Latin-1", "sft", lines({"text": "déjà vu"}, encoding="latin-1"), ("UTF-8",)),
    Case("text in UTF-16", "sft", lines({"text": "a"}, encoding="utf-16"), ("UTF-8",)),
    Case("one bad line", "sft", lines({"text": "a"}) + b'{"text": "b"\n' + lines({"text": "c"}), ("Line 3",)),
    Case("a line that is a list", "sft", lines({"text": "a"}) + b"[1, 2]\n", ("Line 2",)),
    Case("empty lines between", "sft", b"\n" + lines({"text": "a"}) + b"\n\n" + lines({"text": "b"})),
    Case("an empty file", "sft", b"", ("empty",)),
    Case("a file of empty lines", "sft", b"\n\n", ("empty",)),
    Case("an empty object in a row", "sft", lines({"text": "a"}, {}, {"text": "b"}), ("row 2", "text")),
    Case("an empty text", "sft", _four({"text": "a"}, text="")),
    Case("a text that is missing", "sft", _four({"text": "a"}, text=None), ("row 3", "text")),
    Case("a text that is a number", "sft", _four({"text": "a"}, text=7), ("row 3", "text")),
    Case("texts that are numbers", "sft", _four({"text": 1}), ("text",)),
    Case("texts in lists", "sft", _four({"text": [["a"]]}), ("text",)),
    Case("no column that it reads", "sft", _four({"question": "a", "answer": "b"}), ("question", "answer")),
    Case("another column of text", "sft", _four({"body": "a b"}), options={"dataset_text_field": "body"}),
    Case("a list of objects", "sft", json.dumps([{"text": "a"}, {"text": "b"}]).encode(), ending="json"),
    Case("messages", "sft", _four(CHAT)),
    Case("messages that are text", "sft", _four({"messages": "hi"}), ("messages",)),
    Case("a conversation without messages", "sft", _four(CHAT, messages=[]), ("row 3", "messages")),
    Case("a first conversation without messages", "sft", lines({"messages": []}, CHAT), ("messages",)),
    Case("a role that is unknown", "sft", _four(CHAT, messages=[{"role": "bot", "content": "hi"}])),
    Case("a message without role", "sft", _four(CHAT, messages=[user("a"), {"content": "b"}]), ("row 3", "messages")),
    Case("a message without content", "sft", _four(CHAT, messages=[user("a"), {"role": "assistant"}]), ("row 3",)),
    Case("two systems", "sft", _four(CHAT, messages=[_system("a"), _system("b"), user("c"), says("d")])),
    Case("a conversation of the user alone", "sft", _four(CHAT, messages=[user("a")])),
    Case("content in parts", "sft", _four({"messages": [user([{"type": "text", "text": "a"}])]}), ("messages",)),
    Case("a tool call without content", "sft", _four(CHAT, messages=[user("2+2?"), _CALL]), ("row 3", "messages")),
    Case("tool calls with tools", "sft", _four({
        "messages": [user("2+2?"), says("", tool_calls=[_CALL["tool_calls"][0]]), {"role": "tool", "content": "4"}],
        "tools": json.dumps([_TOOL]),
    })),
    Case("tools that are no JSON", "sft", _four({**CHAT, "tools": "[]"}, tools="add(a, b)"), ("row 3", "tools")),
    Case("from and value", "sft", _four(
        {"conversations": [{"from": "user", "value": "a"}, {"from": "gpt", "value": "b"}]})),
    Case("prompt and completion", "sft", _four({"prompt": "a", "completion": " b"})),
    Case("prompt and completion in messages", "sft", _four({"prompt": [user("a")], "completion": [says("b")]})),
    Case("prompt text and completion messages", "sft", _four({"prompt": "a", "completion": [says("b")]}),
         ("prompt", "completion")),
    Case("a completion that is missing", "sft", _four({"prompt": "a", "completion": "b"}, completion=None),
         ("row 3", "completion")),
    Case("a prompt alone", "sft", _four({"prompt": "a"}), ("prompt", "completion")),
    Case("tokens", "sft", _four({"input_ids": [5, 6, 7]})),
    Case("tokens that are text", "sft", _four({"input_ids": "5 6 7"}), ("input_ids",)),
    Case("pictures", "sft", _four({**CHAT, "images": ["cat.png"]}), ("images",)),
    Case("only the assistant counts", "sft", _four(CHAT), options={"assistant_only_loss": True}),
    Case("only the assistant counts and is silent", "sft", _four(CHAT, messages=[user("a")]), ("row 3", "messages"),
         options={"assistant_only_loss": True}),
    Case("only the assistant counts in text", "sft", _four({"text": "a"}), ("assistant_only_loss",),
         options={"assistant_only_loss": True}),
    Case("prompts as long as max_length", "sft", _four({"prompt": _LONG, "completion": "b"}), ("No row is left",),
         options={"max_length": 32}),
    Case("a prompt as long as max_length", "sft", _four({"prompt": "a", "completion": "b"}, prompt=_LONG),
         options={"max_length": 32}),
    Case("long rows in packing", "sft", _four({"text": _LONG}), options={"max_length": 32, "packing": True}),
    Case("a token that there is not", "sft", _four({"text": "a"}), ("eos_token",), options={"eos_token": "<nope>"}),
    Case("messages in Parquet", "sft", _parquet(CHAT, CHAT), ending="parquet"),
    Case("a table", "sft", b"prompt,completion\na,b\nc,d\n", ending="csv"),
    Case("a table with an empty cell", "sft", b"text,n\na,1\n,2\n", ("row 2", "text"), ending="csv"),
    Case("a table of numbers", "sft", b"text\n1\n2\n", ("text",), ending="csv"),
    Case("a table in Latin-1", "sft", "text\ndéjà\n".encode("latin-1"), ("UTF-8",), ending="csv"),
    Case("a table with a cell too many", "sft", b"text,n\na,1\nb,2,3\n", ("line 3",), ending="csv"),
    Case("a table of conversations", "sft", b'messages\n"[{""role"": ""user"", ""content"": ""a""}]"\n', ("messages",),
         ending="csv"),
    Case("Parquet that is cut", "sft", b"PAR1 and no more", ("parquet",), ending="parquet"),
    Case("pictures in Parquet", "sft", _parquet({**CHAT, "image": {"bytes": b"x", "path": "cat.png"}}), ("image",),
         ending="parquet"),
    Case("a list with a number in it", "sft", b'[{"text": "a"}, 5]', ("list",), ending="json"),
    Case("a packed file", "sft", gzip.compress(_four({"text": "a"})), ending="jsonl.gz"),
    Case("a column that comes later", "sft", lines({"text": "a"}, {"text": "b", "source": "web"})),
    Case("texts and conversations", "sft", lines({"text": "a"}, CHAT), ("row 2", "text")),
    Case("lines of text", "sft", "một\nhai\n".encode(), ending="txt"),
]  # fmt: skip

PREFERENCES = [
    Case("pairs", "dpo", _four(PAIR)),
    Case("pairs in messages", "dpo", _four(CHAT_PAIR)),
    Case("pairs with the prompt inside", "dpo", _four({"chosen": "2+2? 4", "rejected": "2+2? 5"})),
    Case("pairs of messages with the prompt inside", "dpo", _four(
        {"chosen": [user("a"), says("b")], "rejected": [user("a"), says("c")]})),
    Case("pairs without rejected", "dpo", _four({"prompt": "a", "chosen": "b"}), ("rejected",)),
    Case("a rejected that is missing", "dpo", _four(PAIR, rejected=None), ("row 3", "rejected")),
    Case("a rejected message without content", "dpo", _four(CHAT_PAIR, rejected=[says(None)]), ("row 3", "rejected")),
    Case("chosen messages and rejected text", "dpo", _four({**CHAT_PAIR, "rejected": "5"}), ("rejected", "chosen")),
    Case("pairs of lists of words", "dpo", _four({"prompt": "a", "chosen": ["b"], "rejected": ["c"]}), ("chosen",)),
    Case("pairs with an empty prompt", "dpo", _four(PAIR, prompt="")),
    Case("pairs with prompts as long as max_length", "dpo", _four({**PAIR, "prompt": _LONG}), ("No row is left",),
         options={"max_length": 32}),
    Case("rewarded pairs", "reward", _four(PAIR)),
    Case("rewarded pairs in messages", "reward", _four(CHAT_PAIR)),
    Case("a rewarded chosen that is missing", "reward", _four(PAIR, chosen=None), ("row 3", "chosen")),
    Case("margins", "reward", _four({**PAIR, "margin": 0.5})),
    Case("margins in words", "reward", _four({**PAIR, "margin": "large"}), ("margin",)),
    Case("labels", "kto", _four(LABEL, label=False)),
    Case("labels in numbers", "kto", _four({**LABEL, "label": 1}, label=0)),
    Case("labels in words", "kto", _four({**LABEL, "label": "good"}, label="bad"), ("label",)),
    Case("a label that is missing", "kto", _four(LABEL, label=None), ("row 3", "label")),
    Case("no labels", "kto", _four({"prompt": "a", "completion": "b"}), ("label",)),
    Case("pairs for labels", "kto", _four(CHAT_PAIR)),
    Case("pairs for orpo", "orpo", _four(PAIR)),
    Case("pairs for orpo in messages", "orpo", _four(CHAT_PAIR)),
    Case("a rejected that is missing for orpo", "orpo", _four(PAIR, rejected=None), ("row 3", "rejected")),
    Case("pairs for cpo in messages", "cpo", _four(CHAT_PAIR)),
    Case("pairs for cpo without chosen", "cpo", _four({"prompt": "a", "rejected": "b"}), ("chosen",)),
    Case("triples", "tpo", _four({**CHAT_PAIR, "reference": [says("4!")]})),
    Case("triples without reference", "tpo", _four(CHAT_PAIR), ("reference",)),
]  # fmt: skip

GENERATED = [
    Case("prompts", "grpo", _four({"prompt": "a"})),
    Case("prompts in messages", "grpo", _four(ASK)),
    Case("prompts in Vietnamese", "grpo", _four({"prompt": [user("Thủ đô của Việt Nam là gì?")]})),
    Case("no prompts", "grpo", _four({"question": "a"}), ("prompt", "question")),
    Case("a prompt that is missing", "grpo", _four(ASK, prompt=None), ("row 3", "prompt")),
    Case("a prompt without content", "grpo", _four(ASK, prompt=[user(None)]), ("row 3", "prompt")),
    Case("a prompt of another kind", "grpo", _four({"prompt": "a"}, prompt=3), ("row 3", "prompt")),
    Case("completions that are there already", "grpo", _four({**ASK, "completions": "b"}), ("completions",)),
    Case("prompts to distil", "distillation", _four(ASK)),
    Case("prompts to distil in a mapping", "distillation", _four({"prompt": {"text": "a"}}), ("prompt",)),
    Case("prompts to distil that are numbers", "distillation", _four({"prompt": 3}), ("prompt",)),
    Case("prompts for rloo", "rloo", _four({"prompt": "a"})),
    Case("prompts for rloo in a table", "rloo", b"prompt\n1\n2\n", ("prompt",), ending="csv"),
    Case("answers for gkd", "gkd", _four(CHAT)),
    Case("text for gkd", "gkd", _four({"text": "a"}), ("messages", "text")),
    Case("an answer for gkd without content", "gkd", _four(CHAT, messages=[user("a"), says(None)]),
         ("row 3", "messages")),
    Case("answers for gold", "gold", _four(CHAT), options={"max_completion_length": 8, "max_length": 64}),
    Case("prompts for online_dpo", "online_dpo", _four(ASK)),
    Case("hints for sdft", "sdft", _four({**ASK, "privileged_context": "4"})),
    Case("no hints for sdft", "sdft", _four(ASK), ("privileged_context",)),
]  # fmt: skip

CASES: tuple[Case, ...] = (*SFT, *PREFERENCES, *GENERATED)

# One of each kind of answer, for the quick tier.
SAMPLE = (
    *("text in Chinese", "one bad line", "a text that is a number", "a message without content", "pictures"),
    *("prompts as long as max_length", "a table with an empty cell", "a rejected message without content"),
    *("a label that is missing", "pairs for orpo in messages", "prompts in messages"),
)
