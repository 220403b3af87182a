"""What a trainer makes of rows: its own constructor builds the batches, on a model of a few weights.

So the template, EOS, masks, what is left out and what is refused are those of the installed TRL. The trainers that
generate read a prompt alone, with the two calls that `GRPOTrainer._tokenize_prompts` and its siblings make.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from . import experimental

PREPARING = ("sft", "dpo", "kto", "reward", "orpo", "cpo", "tpo", "gkd", "gold")
PROMPTED = (
    *("grpo", "rloo", "distillation", "online_dpo", "gmpo", "a2po", "sdft", "sdpo"),
    *("server_distillation", "async_grpo", "async_distillation"),
)
# The column that tells rows apart after the trainer has left some out.
_ROW = "kerneltui_row"
# A length that no row has.
_ENDLESS = 1 << 24
# Rows that are shown token by token, and how many tokens of each.
_EXAMPLES, _SHOWN = 3, 400


@dataclasses.dataclass
class Made:
    """What a trainer made of rows: sequences, None where it packed them, then the lengths of what it packed."""

    sequences: list[dict[str, Any]] | None = None
    limit: int | None = None
    packed: list[int] | None = None


class NotPreparedError(Exception):
    """What the rows become cannot be told here; the message says why."""


def prepare_rows(dataset: Any, trainer: str, options: dict[str, Any], tokenizer: Any) -> dict[str, Any]:
    """Return the fields of `kerneltui.facts.prepared.Prepared`, or `{"refused": {row, column, error}}`.

    `dataset` holds the rows with their features. Raises NotPreparedError where this trainer or these options cannot be
    asked here.
    """
    kwargs = options.get("dataset_kwargs")
    if isinstance(kwargs, dict) and kwargs.get("skip_prepare_dataset"):
        raise NotPreparedError("the trainer is told to leave the data as it is")
    if trainer not in (*PREPARING, *PROMPTED):
        raise NotPreparedError(f"what {trainer} makes of rows is not known here")
    build = _prompts if trainer in PROMPTED else _constructed
    number = dataset.add_column(_ROW, list(range(1, len(dataset) + 1)))

    def made(rows: Any, **changes: Any) -> Any:
        return build(rows, trainer, {**options, **changes}, tokenizer)

    try:
        whole = made(number, max_length=_ENDLESS, packing=False)
        kept = whole if trainer in PROMPTED else made(number)
    except OSError as error:  # a template that is on the Hub, say
        raise NotPreparedError(f"what the trainer needs is not on this machine: {_text(error)}") from error
    except Exception as error:  # noqa: BLE001 - whatever a trainer raises is what the person must know
        if trainer in PREPARING and (raised := _fails(made, _good_rows(trainer, options, tokenizer))):
            return {"refused": {"row": None, "column": None, "error": _text(raised)}}
        return {"refused": _locate(made, number, error)}
    return {**_facts(whole, kept, tokenizer), "constructed": trainer in PREPARING}


def _constructed(rows: Any, trainer: str, options: dict[str, Any], tokenizer: Any) -> Made:
    """Return what the trainer's own data set holds."""
    trainer_class, config_class = _classes(trainer)
    takes = experimental.parameters(trainer_class)
    with tempfile.TemporaryDirectory() as folder, _quiet(), _sees_no_network():
        config = config_class(**_arguments(config_class, options, folder, len(rows)))
        arguments: dict[str, Any] = {
            "model": _small_model(trainer, tokenizer),
            "args": config,
            "train_dataset": rows,
            "processing_class": tokenizer,
        }
        for name in {"ref_model", "teacher_model"} & takes:
            arguments[name] = _small_model(trainer, tokenizer)
        built = trainer_class(**arguments)
        found = built.train_dataset
        if len(found):
            next(iter(built.get_train_dataloader()))  # the collator has its say
        limit = getattr(config, "max_length", None)
        if _ROW not in found.column_names:
            return Made(None, limit, [len(ids) for ids in found["input_ids"]])
        if not {"labels", "chosen_ids", "completion_ids", "chosen_labels"} & set(found.column_names):
            # The collator makes the tokens, or tells at least which of them count.
            found = [{_ROW: row[_ROW], **_first(built.data_collator([row]))} for row in found]
        return Made([sequence for row in found for sequence in _sequences(row)], limit)


def _first(batch: Any) -> dict[str, Any]:
    return {name: batch[name][0].tolist() for name in ("input_ids", "labels") if name in batch}


def _classes(trainer: str) -> tuple[Any, Any]:
    if experimental.is_experimental(trainer):
        return experimental.classes(trainer)
    import trl

    name = {"reward": "Reward"}.get(trainer, trainer.upper())
    return getattr(trl, f"{name}Trainer"), getattr(trl, f"{name}Config")


def _arguments(config_class: Any, options: dict[str, Any], folder: str, rows: int) -> dict[str, Any]:
    """Return the arguments of the configuration: the CPU, one batch of all rows, nothing written."""
    fixed = {
        "output_dir": folder, "use_cpu": True, "bf16": False, "report_to": "none", "disable_tqdm": True,
        "per_device_train_batch_size": max(2, rows), "shuffle_dataset": False, "dataloader_pin_memory": False,
        "gradient_checkpointing": False,
    }  # fmt: skip
    known = inspect.signature(config_class).parameters
    return {name: value for name, value in {**fixed, **options}.items() if name in known}


def _small_model(trainer: str, tokenizer: Any) -> Any:
    """Return a model with the vocabulary of the tokenizer and nearly no weights."""
    import transformers

    config = transformers.LlamaConfig(
        hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1, num_key_value_heads=1,
        vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id, num_labels=1 if trainer == "reward" else 2,
    )  # fmt: skip
    kind = "LlamaForSequenceClassification" if trainer == "reward" else "LlamaForCausalLM"
    return getattr(transformers, kind)(config)


def _prompts(rows: Any, trainer: str, options: dict[str, Any], tokenizer: Any) -> Made:
    """Return the prompts as the trainers that generate tokenize them, in one batch."""
    from trl.data_utils import is_conversational

    prompts = [row["prompt"] for row in rows]
    if is_conversational({"prompt": prompts[0]}):
        more = options.get("chat_template_kwargs") or {}
        rendered = tokenizer.apply_chat_template(
            conversation=prompts, tools=None, add_generation_prompt=True, tokenize=True, return_dict=True, **more
        )
    else:
        rendered = tokenizer(text=prompts)
    return Made(
        [
            {"row": row[_ROW], "name": "prompt", "ids": ids, "loss": None}
            for row, ids in zip(rows, rendered["input_ids"], strict=True)
        ]
    )


def _sequences(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
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
        yield {"row": row[_ROW], "name": word, "ids": [*prompt, *ids], "loss": loss}


def _facts(whole: Made, kept: Made, tokenizer: Any) -> dict[str, Any]:
    sequences = whole.sequences or []
    left = {sequence["row"] for sequence in (sequences if kept.sequences is None else kept.sequences)}
    return {
        "sequences": [_summary(sequence, tokenizer) for sequence in sequences],
        "dropped": sorted({sequence["row"] for sequence in sequences} - left),
        "max_length": kept.limit,
        "packed": kept.packed,
        "eos": tokenizer.eos_token,
        "pad": tokenizer.pad_token,
        "examples": [_example(sequence, tokenizer) for sequence in sequences if sequence["row"] <= _EXAMPLES],
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


def _example(sequence: dict[str, Any], tokenizer: Any) -> dict[str, Any]:
    """Return a sequence as pieces of text, each with whether it counts for the loss."""
    ids = sequence["ids"][:_SHOWN]
    loss = (sequence["loss"] or [False] * len(ids))[:_SHOWN]
    borders = [at for at in range(len(ids)) if at == 0 or loss[at] != loss[at - 1]]
    pieces = [
        {"text": tokenizer.decode(ids[start:end]), "loss": bool(loss[start])}
        for start, end in zip(borders, [*borders[1:], len(ids)], strict=True)
    ]
    return {
        "row": sequence["row"], "name": sequence["name"], "pieces": pieces, "cut": len(sequence["ids"]) > _SHOWN,
    }  # fmt: skip


def _locate(made: Callable[..., Made], rows: Any, error: Exception) -> dict[str, Any]:
    """Return the first row with which the trainer fails, and the column that it fails of where that can be told."""
    good, bad = 0, len(rows)  # the first `good` rows work, the first `bad` do not
    while bad - good > 1:
        middle = (good + bad) // 2
        raised = _fails(made, rows.select(range(middle)))
        good, bad, error = (good, middle, raised) if raised else (middle, bad, error)
    column = None
    if good:
        first, wrong = rows[0], rows[bad - 1]
        repaired = {name: [first, {**wrong, name: first[name]}] for name in rows.column_names if name != _ROW}
        works = (name for name, pair in repaired.items() if not _fails(made, _as_dataset(pair, rows.features)))
        column = next(works, None)
    return {"row": bad, "column": column, "error": _text(error)}


def _fails(made: Callable[..., Made], rows: Any) -> Exception | None:
    """Return what the trainer raises on rows, None where it takes them."""
    try:
        made(rows)
    except Exception as raised:  # noqa: BLE001 - see `prepare_rows`
        return raised
    return None


def _text(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:500]


def _good_rows(trainer: str, options: dict[str, Any], tokenizer: Any) -> Any:
    """Return rows that a trainer takes, so that what it refuses then are its options."""
    user, answer = [{"role": "user", "content": "a"}], [{"role": "assistant", "content": "b"}]
    if not tokenizer.chat_template:
        user, answer = "a", " b"  # type: ignore[assignment]
    row: dict[str, Any] = {"prompt": user, "chosen": answer, "rejected": answer, "reference": answer}
    if trainer in ("sft", "gkd", "gold"):
        text = {options.get("dataset_text_field", "text"): "a"}
        row = {"messages": user + answer} if tokenizer.chat_template else text
    return _as_dataset([{**row, _ROW: number} for number in (1, 2)])


def _as_dataset(rows: list[dict[str, Any]], features: Any = None) -> Any:
    from datasets import Dataset

    return Dataset.from_list(rows, features=features)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence warnings and progress bars, and undo what building a trainer does to this process."""
    import datasets
    from accelerate.state import AcceleratorState

    environment = dict(os.environ)
    bars = datasets.is_progress_bar_enabled()
    datasets.disable_progress_bars()
    caching = datasets.is_caching_enabled()
    datasets.disable_caching()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        os.environ.clear()
        os.environ.update(environment)
        if bars:
            datasets.enable_progress_bars()
        if caching:
            datasets.enable_caching()
        AcceleratorState._reset_state(reset_partial_state=True)


@contextlib.contextmanager
def _sees_no_network() -> Iterator[None]:
    """Let the libraries use what is on this machine, so that a look at rows downloads nothing."""
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before
