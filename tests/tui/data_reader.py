"""An asker that answers about a small data set as the worker does, without importing a training package."""

from __future__ import annotations

import threading
from typing import Any

HOSTILE = "[/red]\x1b[31m 注意注意 مرحبا \u202eabc"
ROWS = 30
LIMIT = 12


class DataReader:
    """Has `ROWS` rows of `total`, the third of them hostile; a scan has one piece each time that `go` is set."""

    def __init__(self, total: int = 3000, **answers: Any) -> None:
        self.total, self.answers = total, answers
        self.go = threading.Event()
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self._pieces = 0

    def ask(self, question: str, **arguments: Any) -> Any:
        self.asked.append((question, arguments))
        if (answer := self.answers.get(question.removeprefix("data.").replace(".", "_"))) is not None:
            return answer(arguments) if callable(answer) else answer
        match question:
            case "data.preview":
                return self._preview(**arguments)
            case "data.scan":
                self._pieces = 0
                return {"scan": 1}
            case "data.scan.more":
                return self._more()

    def close(self) -> None:
        self.go.set()

    def prepare(self) -> None:
        pass

    def _preview(self, rows: int, trainer: str, examples: int, **_: Any) -> dict[str, Any]:
        return {
            "columns": [{"name": "messages", "type": "messages"}],
            "format": "language modeling",
            "conversational": True,
            "rows": [{"messages": [{"role": "user", "content": _text(row)}]} for row in range(1, ROWS + 1)],
            "tokens": [_length(row) for row in range(1, ROWS + 1)],
            "chat_template": True,
            "total": self.total,
            "counted": False,
            "prepared": _prepared(examples),
        }

    def _more(self) -> dict[str, Any]:
        self.go.wait(60)
        self._pieces += 1
        done = self._pieces * ROWS > self.total
        return (
            {"rows": self._pieces * ROWS, "done": True}
            if done
            else {"prepared": _prepared(0), "rows": 0, "done": False}
        )


def _text(row: int) -> str:
    return HOSTILE if row == 3 else f"What is {row} plus {row}?"


def _length(row: int) -> int:
    return 5 + row


def _prepared(examples: int) -> dict[str, Any]:
    return {
        "sequences": [
            {"row": row, "name": "text", "tokens": _length(row), "loss_tokens": 4, "has_eos": True}
            for row in range(1, ROWS + 1)
        ],
        "max_length": LIMIT,
        "packable": [LIMIT] * ROWS,
        "eos": "</s>",
        "pad": "<pad>",
        "constructed": True,
        "examples": [{"row": row, "name": "text", "pieces": _pieces(row)} for row in range(1, min(examples, ROWS) + 1)],
    }


def _pieces(row: int) -> list[dict[str, Any]]:
    kept = min(_length(row), LIMIT)
    cut = _length(row) - kept
    pieces = [
        _piece(f"<user>{_text(row)}\n<assistant>", kept - 4, loss=False),
        _piece(f"It is {2 * row}.</s>", 4),
    ]
    return [*pieces, _piece("and more" * cut, cut, kept=False)] if cut else pieces


def _piece(text: str, count: int, *, loss: bool = True, kept: bool = True) -> dict[str, Any]:
    size = max(1, len(text) // count)
    tokens = [text[at * size : (at + 1) * size if at < count - 1 else None] for at in range(count)]
    return {"text": text, "loss": loss, "kept": kept, "count": count, "ids": list(range(count)), "tokens": tokens}
