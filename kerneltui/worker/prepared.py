"""What a trainer makes of rows: its own constructor builds the batches, on a model of a few weights.

So the template, EOS, masks, what is left out and what is refused are those of the installed TRL. The trainers that
generate read a prompt alone, with the two calls that `GRPOTrainer._tokenize_prompts` and its siblings make.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from . import experimental
from .sequences import ROW, Made, facts, sequences_of

PREPARING = ("sft", "dpo", "kto", "reward", "orpo", "cpo", "tpo", "gkd", "gold")
PROMPTED = (
    *("grpo", "rloo", "distillation", "online_dpo", "gmpo", "a2po", "sdft", "sdpo"),
    *("server_distillation", "async_grpo", "async_distillation"),
)
# Those that cut, or leave out, by `max_length` alone.
_BY_LENGTH = ("sft", "dpo", "kto", "reward", "tpo")
# A length that no row has.
_ENDLESS = 1 << 24
# So many rows come in one batch; more of them in batches of so many, which take less memory.
_ONE_BATCH, _BATCH = 100, 25


class NotPreparedError(Exception):
    """What the rows become cannot be told here; the message says why."""


def prepare_rows(
    dataset: Any, trainer: str, options: dict[str, Any], tokenizer: Any, examples: int = 3
) -> dict[str, Any]:
    """Return the fields of `kerneltui.facts.prepared.Prepared`, or `{"refused": {row, column, error}}`.

    `dataset` holds the rows with their features; the first `examples` of them are shown token by token. Raises
    NotPreparedError where this trainer or these options cannot be asked here.
    """
    kwargs = options.get("dataset_kwargs")
    if isinstance(kwargs, dict) and kwargs.get("skip_prepare_dataset"):
        raise NotPreparedError("the trainer is told to leave the data as it is")
    if trainer not in (*PREPARING, *PROMPTED):
        raise NotPreparedError(f"what {trainer} makes of rows is not known here")
    build = _prompts if trainer in PROMPTED else _constructed
    number = dataset.add_column(ROW, list(range(1, len(dataset) + 1)))

    def made(rows: Any, **changes: Any) -> Any:
        return build(rows, trainer, {**options, **changes}, tokenizer)

    try:
        whole = made(number, max_length=_ENDLESS, packing=False)
        kept = whole if trainer in PROMPTED else _uncut(whole, trainer, options) or made(number)
    except OSError as error:  # a template that is on the Hub, say
        raise NotPreparedError(f"what the trainer needs is not on this machine: {_text(error)}") from error
    except Exception as error:  # noqa: BLE001 - whatever a trainer raises is what the person must know
        if trainer in PREPARING and (raised := _fails(made, good_rows(trainer, options, tokenizer))):
            return {"refused": {"row": None, "column": None, "error": _text(raised)}}
        return {"refused": _locate(made, number, error)}
    return {
        **facts(whole, kept, tokenizer, options, examples),
        "packable": _packed(whole, kept, trainer, options),
        "constructed": trainer in PREPARING,
    }


def _uncut(whole: Made, trainer: str, options: dict[str, Any]) -> Made | None:
    """Return what a trainer keeps where it has nothing to cut, None where it must be asked."""
    limit = options.get("max_length")
    if trainer not in _BY_LENGTH or options.get("packing") or not isinstance(limit, int):
        return None
    short = all(len(sequence["ids"]) < limit for sequence in whole.sequences or ())
    return Made(whole.sequences, limit) if short else None


def _constructed(rows: Any, trainer: str, options: dict[str, Any], tokenizer: Any) -> Made:
    """Return what the trainer's own data set holds."""
    trainer_class, config_class = classes(trainer)
    takes = experimental.parameters(trainer_class)
    with tempfile.TemporaryDirectory() as folder, quiet(), sees_no_network():
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
            for _ in built.get_train_dataloader():  # the collator has its say
                pass
        limit = getattr(config, "max_length", None)
        if ROW not in found.column_names:
            return Made(None, limit, [len(ids) for ids in found["input_ids"]])
        if not {"labels", "chosen_ids", "completion_ids", "chosen_labels"} & set(found.column_names):
            # The collator makes the tokens, or tells at least which of them count.
            found = [{ROW: row[ROW], **_first(built.data_collator([row]))} for row in found]
        return Made([sequence for row in found for sequence in sequences_of(row)], limit)


def _packed(whole: Made, kept: Made, trainer: str, options: dict[str, Any]) -> list[int] | None:
    """Return the lengths of the sequences that TRL's packing would make of these; None where it cannot or does pack."""
    if kept.packed is not None or not kept.limit or trainer not in PREPARING:
        return None
    if "packing" not in inspect.signature(classes(trainer)[1]).parameters:
        return None
    from trl.data_utils import pack_dataset

    rows = _as_dataset([{"input_ids": [0] * len(it["ids"])} for it in whole.sequences or ()])
    with quiet():
        packed = pack_dataset(rows, kept.limit, options.get("packing_strategy") or "bfd")
    return [len(ids) for ids in packed["input_ids"]]


def _first(batch: Any) -> dict[str, Any]:
    return {name: batch[name][0].tolist() for name in ("input_ids", "labels") if name in batch}


def classes(trainer: str) -> tuple[Any, Any]:
    """Return the classes of a trainer and of its configuration."""
    if experimental.is_experimental(trainer):
        return experimental.classes(trainer)
    import trl

    name = {"reward": "Reward", "distillation": "Distillation"}.get(trainer, trainer.upper())
    return getattr(trl, f"{name}Trainer"), getattr(trl, f"{name}Config")


def _arguments(config_class: Any, options: dict[str, Any], folder: str, rows: int) -> dict[str, Any]:
    """Return the arguments of the configuration: the CPU, one batch of all rows where they are few, nothing written."""
    many = rows > _ONE_BATCH
    fixed = {
        "output_dir": folder, "use_cpu": True, "bf16": False, "report_to": "none", "disable_tqdm": True,
        "per_device_train_batch_size": _BATCH if many else max(2, rows), "dataloader_drop_last": many,
        "shuffle_dataset": False, "dataloader_pin_memory": False, "gradient_checkpointing": False,
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
            {"row": row[ROW], "name": "prompt", "ids": ids, "loss": None}
            for row, ids in zip(rows, rendered["input_ids"], strict=True)
        ]
    )


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
        repaired = {name: [first, {**wrong, name: first[name]}] for name in rows.column_names if name != ROW}
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


def good_rows(trainer: str, options: dict[str, Any], tokenizer: Any) -> Any:
    """Return rows that a trainer takes, so that what it refuses then are its options."""
    user, answer = [{"role": "user", "content": "a"}], [{"role": "assistant", "content": "b"}]
    if not tokenizer.chat_template:
        user, answer = "a", " b"  # type: ignore[assignment]
    row: dict[str, Any] = {"prompt": user, "chosen": answer, "rejected": answer, "reference": answer}
    if trainer in ("sft", "gkd", "gold"):
        text = {options.get("dataset_text_field", "text"): "a"}
        row = {"messages": user + answer} if tokenizer.chat_template else text
    return _as_dataset([{**row, ROW: number} for number in (1, 2)])


def _as_dataset(rows: list[dict[str, Any]], features: Any = None) -> Any:
    from datasets import Dataset

    return Dataset.from_list(rows, features=features)


@contextlib.contextmanager
def quiet(*, warn: bool = False) -> Iterator[None]:
    """Silence progress bars and, unless `warn`, warnings; undo what building a trainer does to this process."""
    import datasets
    from accelerate.state import AcceleratorState

    environment = dict(os.environ)
    bars = datasets.is_progress_bar_enabled()
    datasets.disable_progress_bars()
    caching = datasets.is_caching_enabled()
    datasets.disable_caching()
    try:
        with warnings.catch_warnings():
            if not warn:
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
def sees_no_network() -> Iterator[None]:
    """Let the libraries use what is on this machine, so that a look at rows downloads nothing."""
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before
