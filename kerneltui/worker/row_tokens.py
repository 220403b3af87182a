"""How many tokens the rows of a data set have, with the tokenizer of the model, where it is on this machine."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Trainers that read the prompt alone and generate the rest.
_ONLINE = ("grpo", "rloo", "distillation")


def count_tokens(rows: list[dict[str, Any]], trainer: str, text_field: str, model: str | None) -> dict[str, Any]:
    """Return `tokens` of each row as the trainer would read it, or None and in `no_tokens` the reason.

    `chat_template` tells whether the tokenizer has one, None where there is no tokenizer. Of a preference the longer
    answer counts. Nothing is downloaded.
    """
    if model is None:
        return _uncounted("no model is named")
    try:
        tokenizer = _tokenizer(model)
    except Exception:  # noqa: BLE001 - many ways not to be here; the model step tells which
        return _uncounted("the model's tokenizer is not on this machine")
    has_template = bool(getattr(tokenizer, "chat_template", None))
    counts = []
    for number, row in enumerate(rows, 1):
        try:
            counts.append(max(map(len, _sequences(row, trainer, text_field, tokenizer))))
        except Exception as error:  # noqa: BLE001 - whatever a chat template raises
            why = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            return _uncounted(f"row {number}: {why}", has_template)
    return {"tokens": counts, "no_tokens": None, "chat_template": has_template}


def _uncounted(reason: str, has_template: bool | None = None) -> dict[str, Any]:
    return {"tokens": None, "no_tokens": reason, "chat_template": has_template}


def _tokenizer(model: str) -> Any:
    from transformers import AutoTokenizer

    local = Path(model).expanduser()
    return AutoTokenizer.from_pretrained(str(local) if local.is_dir() else model, local_files_only=True)


def _sequences(row: dict[str, Any], trainer: str, text_field: str, tokenizer: Any) -> list[Any]:
    """Return the token sequences that a trainer makes of a row."""
    from trl.data_utils import is_conversational_from_value, maybe_convert_to_chatml

    if "input_ids" in row:
        return [row["input_ids"]]
    if is_conversational_from_value(row):
        row = maybe_convert_to_chatml(copy.deepcopy(row))
    encode = _encoder(row, tokenizer)
    prompt = row.get("prompt")
    if trainer in _ONLINE and prompt is not None:
        return [encode(prompt, open_end=True)]
    ends = [row[name] for name in ("chosen", "rejected", "completion") if row.get(name) is not None]
    if ends:
        return [encode(end if prompt is None else prompt + end) for end in ends]
    whole = [row[name] for name in ("messages", text_field, "prompt") if row.get(name) is not None]
    if not whole:
        raise KeyError("it has no text that this trainer reads")
    return [encode(whole[0])]


def _encoder(row: dict[str, Any], tokenizer: Any) -> Callable[..., Any]:
    tools = row.get("tools")
    tools = json.loads(tools) if isinstance(tools, str) else tools
    options = row.get("chat_template_kwargs") or {}

    def encode(value: Any, *, open_end: bool = False) -> Any:
        if isinstance(value, str):
            return tokenizer(value)["input_ids"]
        rendered = tokenizer.apply_chat_template(
            value, tools=tools or None, tokenize=True, return_dict=True, add_generation_prompt=open_end, **options
        )
        return rendered["input_ids"]

    return encode
