"""The token sequences that a trainer makes of rows: summed up in numbers, and shown piece by piece."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

# The column that tells rows apart after the trainer has left some out.
ROW = "kerneltui_row"
# Tokens that are handed over to be shown: of all sequences together, of one at least and at most, and at its end.
_ALL, _LEAST, _MOST, _TAIL = 60_000, 200, 4000, 32


@dataclasses.dataclass
class Made:
    """What a trainer made of rows: sequences, None where it packed them, then the lengths of what it packed."""

    sequences: list[dict[str, Any]] | None = None
    limit: int | None = None
    packed: list[int] | None = None


def sequences_of(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Give the token sequences of a row of a prepared data set: one, or those of the chosen and the rejected answer."""
    prompt = row.get("prompt_ids") or []
    for name in ("input_ids", "chosen_ids", "rejected_ids", "completion_ids", "chosen_input_ids", "rejected_input_ids"):
        if (ids := row.get(name)) is None:
            continue
        if (labels := row.get(name.replace("input_ids", "labels"))) is not None and name.endswith("input_ids"):
            loss = [label != -100 for label in labels]
        else:
            loss = [False] * len(prompt) + [True] * len(ids)
        word = name.removesuffix("_ids").removesuffix("input").rstrip("_") or "text"
        yield {"row": row[ROW], "name": word, "ids": [*prompt, *ids], "loss": loss}


def facts(whole: Made, kept: Made, tokenizer: Any, options: dict[str, Any], examples: int) -> dict[str, Any]:
    """Return the fields of `kerneltui.facts.prepared.Prepared`; `whole` is what there is before anything is cut."""
    sequences = whole.sequences or []
    left = {sequence["row"] for sequence in (sequences if kept.sequences is None else kept.sequences)}
    shown = [sequence for sequence in sequences if sequence["row"] <= examples]
    limit = max(_LEAST, min(_MOST, _ALL // max(1, len(shown))))
    ranges, texts = _Ranges(kept, options), _Texts(tokenizer)
    return {
        "sequences": [_summary(sequence, tokenizer) for sequence in sequences],
        "dropped": sorted({sequence["row"] for sequence in sequences} - left),
        "max_length": kept.limit,
        "packed": kept.packed,
        "eos": tokenizer.eos_token,
        "pad": tokenizer.pad_token,
        "examples": [
            {"row": it["row"], "name": it["name"], "pieces": _pieces(it, ranges.of(it), texts, limit)} for it in shown
        ],
    }


def _summary(sequence: dict[str, Any], tokenizer: Any) -> dict[str, Any]:
    ids, loss = sequence["ids"], sequence["loss"]
    return {
        "row": sequence["row"],
        "name": sequence["name"],
        "tokens": len(ids),
        "loss_tokens": None if loss is None else sum(loss),
        "has_eos": tokenizer.eos_token_id in ids,
    }


class _Ranges:
    """Which tokens of a sequence the trainer keeps."""

    def __init__(self, kept: Made, options: dict[str, Any]) -> None:
        self._limit, self._packed = kept.limit, kept.packed is not None
        self._splits = self._packed and options.get("packing_strategy") in ("bfd_split", "wrapped")
        self._from_end = not self._packed and options.get("truncation_mode") == "keep_end"
        self._kept = {(it["row"], it["name"]): it["ids"] for it in kept.sequences or ()}

    def of(self, sequence: dict[str, Any]) -> tuple[int, int]:
        """Return the first token that is kept and the one behind the last."""
        ids, kept = sequence["ids"], self._kept.get((sequence["row"], sequence["name"]))
        length = len(ids)
        if kept is not None and len(kept) < length:
            if ids[: len(kept)] == kept:
                return 0, len(kept)
            return (length - len(kept), length) if ids[length - len(kept) :] == kept else (0, length)
        # Some trainers cut in their collator only, which is not among what was made.
        if self._limit is None or length <= self._limit or self._splits:
            return 0, length
        return (length - self._limit, length) if self._from_end else (0, self._limit)


class _Texts:
    """The text of each token; of one that is a part of a character the name that the vocabulary gives it."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self._known: dict[int, str] = {}

    def of(self, ids: list[int]) -> list[str]:
        for token in set(ids) - self._known.keys():
            text = self.tokenizer.decode([token])
            whole = text and "\ufffd" not in text
            self._known[token] = text if whole else str(self.tokenizer.convert_ids_to_tokens(token))
        return [self._known[token] for token in ids]


def _pieces(sequence: dict[str, Any], kept: tuple[int, int], texts: _Texts, limit: int) -> list[dict[str, Any]]:
    """Return runs of tokens that fare alike, the middle of a long sequence left out."""
    ids, loss = sequence["ids"], sequence["loss"] or [False] * len(sequence["ids"])
    length = len(ids)
    hidden = range(limit - _TAIL, length - _TAIL) if length > limit else range(0)

    def fate(at: int) -> tuple[bool, bool, bool]:
        return bool(loss[at]), kept[0] <= at < kept[1], at in hidden

    borders = [at for at in range(length) if at == 0 or fate(at) != fate(at - 1)]
    found = []
    for start, end in zip(borders, [*borders[1:], length], strict=True):
        counts, is_kept, is_hidden = fate(start)
        run = [] if is_hidden else ids[start:end]
        found.append({
            "text": texts.tokenizer.decode(run), "loss": counts, "kept": is_kept, "count": end - start,
            "ids": run, "tokens": texts.of(run),
        })  # fmt: skip
    return found
