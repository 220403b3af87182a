"""Rows with the tokenizer of the model that is trained: what the trainer makes of them, or why that cannot be told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .prepared import NotPreparedError, prepare_rows


def tokenized(
    table: Any,
    trainer: str,
    options: dict[str, Any],
    model: str | None,
    *,
    revision: str | None = None,
    examples: int = 3,
    download: bool = False,
) -> dict[str, Any]:
    """Return what the trainer makes of the rows of `table`, or why that cannot be told; whether there is a template.

    See `kerneltui.facts.dataset.DatasetFacts`: "prepared", "refused", "no_tokens", "tokens", "chat_template".
    """
    if model is None:
        return {"no_tokens": "no model is named"}
    try:
        tokenizer = load_tokenizer(model, revision, download=download)
    except Exception:  # noqa: BLE001 - many ways not to be here; the model step tells which
        return {"no_tokens": "the model's tokenizer is not on this machine"}
    template = {"chat_template": bool(getattr(tokenizer, "chat_template", None))}
    try:
        made = prepare_rows(table, trainer, options, tokenizer, examples)
    except NotPreparedError as why:
        return {"no_tokens": str(why), **template}
    if refused := made.get("refused"):
        where = f"row {refused['row']}: " if refused["row"] else ""
        return {"refused": refused, "no_tokens": f"{where}{refused['error']}", **template}
    longest: dict[int, int] = {}
    for sequence in made["sequences"]:
        longest[sequence["row"]] = max(longest.get(sequence["row"], 0), sequence["tokens"])
    return {"tokens": [longest[row] for row in sorted(longest)], "prepared": made, **template}


def load_tokenizer(model: str, revision: str | None = None, *, download: bool = False) -> Any:
    """Return the tokenizer of a model at a revision, as the trainers load it; from the Hub only with `download`.

    Raises NotImplementedError for a model that sees, and whatever transformers raises where it is not here.
    """
    from transformers import AutoConfig, AutoTokenizer

    local = Path(model).expanduser()
    place: dict[str, Any] = {"revision": revision, "local_files_only": not download}
    if local.is_dir():
        model, place = str(local), {"local_files_only": True}
    if "vision_config" in AutoConfig.from_pretrained(model, **place).sub_configs:
        raise NotImplementedError("a model that sees needs a processor, which turns pictures into tokens")
    return AutoTokenizer.from_pretrained(model, **place)
