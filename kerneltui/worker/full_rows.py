"""Rows that fill the plan's length to the last token, in the form that each trainer reads."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

# Where neither the plan nor the caller says how long a row is.
_LENGTH = 1024
# Of a row that has a prompt, the part that the prompt is; the loss is on the rest.
_PROMPT = 0.25
_PIECE = " hello world, again"
# A packed row holds this many documents.
_DOCUMENTS = 4


def reward(completions: list[Any], **_: Any) -> list[float]:
    """Return a reward for each completion, at random: all alike would give no advantage to learn from."""
    return [random.random() for _ in completions]


class FullRows(Mapping[str, Any]):
    """The data set in place of the plan's: under every split the same rows, made when they are asked for."""

    def __init__(self, trainer: str, training_args: Any, model_args: Any, prompt_tokens: int) -> None:
        self._trainer = trainer
        self._args = training_args
        self._model = model_args
        self._prompt_tokens = prompt_tokens
        self._rows: Any = None

    def serve(self) -> None:
        """From now on give these rows to whoever loads a data set."""
        import datasets
        import trl

        datasets.load_dataset = lambda *_, **__: self
        trl.get_dataset = lambda *_, **__: self

    def __getitem__(self, split: str) -> Any:
        if self._rows is None:
            self._rows = self._make()
        return self._rows

    def __iter__(self) -> Iterator[str]:
        return iter(("train",))

    def __len__(self) -> int:
        return 1

    def _make(self) -> Any:
        from datasets import Dataset

        args = self._args
        batch = args.per_device_train_batch_size * args.gradient_accumulation_steps
        count = 2 * batch * max(1, args.world_size) * args.max_steps
        make = {
            "sft": self._tokens,
            "dpo": self._preferences,
            "reward": self._scored,
            "kto": self._answers,
        }.get(self._trainer, self._prompts)
        return Dataset.from_list(make(count))

    @property
    def _length(self) -> int:
        return getattr(self._args, "max_length", None) or _LENGTH

    def _tokens(self, count: int) -> list[dict[str, Any]]:
        if getattr(self._args, "packing", False):
            length = self._length // _DOCUMENTS
            return [{"input_ids": _numbers(length)} for _ in range(count * _DOCUMENTS)]
        return [{"input_ids": _numbers(self._length)} for _ in range(count)]

    def _preferences(self, count: int) -> list[dict[str, Any]]:
        prompt, answer = self._texts()
        return [{"prompt": prompt, "chosen": answer, "rejected": answer} for _ in range(count)]

    def _scored(self, count: int) -> list[dict[str, Any]]:
        # The reward trainer leaves out what is longer than the limit, where the others cut it.
        text = self._text(self._length - 8, exact=True)
        return [{"chosen": text, "rejected": text} for _ in range(count)]

    def _answers(self, count: int) -> list[dict[str, Any]]:
        prompt, answer = self._texts()
        return [{"prompt": prompt, "completion": answer, "label": bool(row % 2)} for row in range(count)]

    def _prompts(self, count: int) -> list[dict[str, Any]]:
        text = self._text(self._prompt_tokens, exact=True)
        return [{"prompt": text} for _ in range(count)]

    def _texts(self) -> tuple[str, str]:
        return self._text(int(self._length * _PROMPT)), self._text(self._length)

    def _text(self, tokens: int, *, exact: bool = False) -> str:
        """Return a text of at least so many tokens; the trainers cut it. `exact`: of at most so many."""
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(
            self._model.model_name_or_path,
            revision=self._model.model_revision,
            trust_remote_code=getattr(self._args, "trust_remote_code", False),
        )
        each = len(tokenizer(_PIECE * 64, add_special_tokens=False)["input_ids"]) / 64
        return _PIECE * (max(1, int(tokens / each)) if exact else int(tokens / each) + 1)


def _numbers(length: int) -> list[int]:
    # Small numbers, which every vocabulary has.
    return [random.randrange(3, 250) for _ in range(length)]
