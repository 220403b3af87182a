"""The trainers of `trl.experimental`: TRL has no scripts for them, so this is theirs.

A trainer is a folder there with `NAME_trainer.py` and `NAME_config.py`. Its script does what those behind the `trl`
command do (`trl.scripts.grpo`, `trl.scripts.distillation`): the same arguments, as far as its class takes them.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Trainers that fail without a tokenizer, or without a padding token in the one that they load (TRL 1.16.0).
_TOKENIZER = ("cpo", "gkd", "online_dpo", "orpo")


def experimental_trainers() -> list[str]:
    """Return the names of the trainers of `trl.experimental`; nothing is imported but TRL itself."""
    spec = importlib.util.find_spec("trl")
    folders = [Path(place, "experimental") for place in (spec.submodule_search_locations or ())] if spec else []
    return sorted(
        file.parent.name
        for folder in folders
        for file in folder.glob("*/*_trainer.py")
        if file.name == f"{file.parent.name}_trainer.py" and file.with_name(f"{file.parent.name}_config.py").exists()
    )


def is_experimental(trainer: str) -> bool:
    """Whether a trainer is one of these."""
    return trainer in experimental_trainers()


def classes(trainer: str) -> tuple[type[Any], type[Any]]:
    """Return the classes of a trainer and of its configuration."""
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")  # its warning is ours to tell
    module = f"trl.experimental.{trainer}.{trainer}"
    return _own_class(f"{module}_trainer", "Trainer"), _own_class(f"{module}_config", "Config")


def _own_class(module: str, ending: str) -> type[Any]:
    found = vars(importlib.import_module(module))
    return next(
        kind
        for name, kind in found.items()
        if isinstance(kind, type) and name.endswith(ending) and kind.__module__ == module
    )


def make_parser(trainer: str, prog: str | None = None) -> Any:
    """Return the parser of a trainer's arguments: those of the script of its nearest kin in the `trl` command."""
    from trl import DatasetMixtureConfig, ModelConfig, ScriptArguments, TrlParser
    from trl.scripts.grpo import GRPOScriptArguments

    trainer_class, config = classes(trainer)
    script = GRPOScriptArguments if "reward_funcs" in parameters(trainer_class) else ScriptArguments
    return TrlParser((script, config, _without(ModelConfig, config), DatasetMixtureConfig), prog=prog)


def _without(kind: type[Any], other: type[Any]) -> type[Any]:
    """Return a dataclass without the fields that another one has as well; argparse takes each name once."""
    taken = {field.name for field in dataclasses.fields(other)}
    if not taken & {field.name for field in dataclasses.fields(kind)}:
        return kind
    kept = [(field.name, field.type, _copy(field)) for field in dataclasses.fields(kind) if field.name not in taken]
    return dataclasses.make_dataclass(kind.__name__, kept)


def _copy(field: Any) -> Any:
    default = {"default": field.default, "default_factory": field.default_factory}
    given = {name: value for name, value in default.items() if value is not dataclasses.MISSING}
    return dataclasses.field(**given, metadata=field.metadata)


def parameters(trainer_class: type[Any]) -> set[str]:
    """Return the names that the constructor takes, with those that it hands on to its base classes."""
    names: set[str] = set()
    for kind in trainer_class.__mro__:
        found = inspect.signature(vars(kind)["__init__"]).parameters.values() if "__init__" in vars(kind) else ()
        names |= {item.name for item in found if item.kind not in (item.VAR_POSITIONAL, item.VAR_KEYWORD)}
        if found and not any(item.kind is item.VAR_KEYWORD for item in found):
            break
    return names - {"self"}


def main(trainer: str) -> None:
    """Train with the arguments of the command line, save the model, and push it where that is asked for."""
    parser = make_parser(trainer)
    script, training, model, data = parser.parse_args_and_config(fail_with_unknown_args=False)
    trainer_class, _ = classes(trainer)
    built = trainer_class(**_arguments(trainer, parameters(trainer_class), script, training, model, data))
    built.train(resume_from_checkpoint=training.resume_from_checkpoint)
    built.save_model(training.output_dir)
    if training.push_to_hub:
        built.push_to_hub(dataset_name=script.dataset_name)
    if hasattr(built, "end"):  # transformers 5.18 and newer: the trackers and the process group
        built.end()


def _arguments(trainer: str, takes: set[str], script: Any, training: Any, model: Any, data: Any) -> dict[str, Any]:
    """Return the constructor's arguments. Raises ValueError for what is asked for and the trainer does not take."""
    from trl import get_peft_config, get_quantization_config

    quantization = get_quantization_config(model) if hasattr(model, "dtype") else None
    _set_model_kwargs(training, model, None if "quantization_config" in takes else quantization)
    dataset = _dataset(script, data)
    found = {
        "model": model.model_name_or_path,
        "args": training,
        "train_dataset": dataset[script.dataset_train_split],
        "eval_dataset": dataset[script.dataset_test_split] if training.eval_strategy != "no" else None,
        "peft_config": get_peft_config(model),
        "quantization_config": quantization if "quantization_config" in takes else None,
        "teacher_model": getattr(training, "teacher_model_name_or_path", None),
        "reward_funcs": list(_reward_functions(script)) if hasattr(script, "reward_funcs") else None,
        "processing_class": _tokenizer(training, model) if trainer in _TOKENIZER else None,
    }
    given = {name: value for name, value in found.items() if value is not None}
    refused = [name for name in given if name not in takes]
    if not set(refused) <= {"teacher_model"}:
        raise ValueError(f"{trainer} does not take {', '.join(refused)}")
    return {name: value for name, value in given.items() if name in takes}


def _set_model_kwargs(training: Any, model: Any, quantization: Any) -> None:
    """Put what the model's flags say into `model_init_kwargs`, the teacher's as well; what is there already counts."""
    flags = {
        "revision": model.model_revision if model.model_revision != "main" else None,
        "attn_implementation": model.attn_implementation,
        "dtype": getattr(model, "dtype", None),
    }
    given = {name: value for name, value in flags.items() if value is not None}
    loading = given if quantization is None else {**given, "quantization_config": quantization}
    training.model_init_kwargs = {**loading, **(training.model_init_kwargs or {})}
    if getattr(training, "teacher_model_name_or_path", None) and hasattr(training, "teacher_model_init_kwargs"):
        teacher = {**given, "revision": getattr(training, "teacher_model_revision", None)}
        teacher = {name: value for name, value in teacher.items() if value is not None}
        training.teacher_model_init_kwargs = {**teacher, **(training.teacher_model_init_kwargs or {})}


def _dataset(script: Any, data: Any) -> Any:
    from datasets import load_dataset
    from trl import get_dataset

    if data.datasets:
        return get_dataset(data)
    if not script.dataset_name:
        raise ValueError("Either `datasets` or `dataset_name` must be provided.")
    return load_dataset(script.dataset_name, name=script.dataset_config, streaming=script.dataset_streaming)


def _reward_functions(script: Any) -> Iterator[Any]:
    """Give the reward model and the reward functions, found as `trl.scripts.grpo` finds them."""
    if script.reward_model_name_or_path:
        yield script.reward_model_name_or_path
    for name in script.reward_funcs or ():
        module, dot, function = name.rpartition(".")
        if dot and str(Path.cwd()) not in sys.path:
            sys.path.insert(0, str(Path.cwd()))
        found = getattr(importlib.import_module(module if dot else "trl.rewards"), function)
        # The one that is made with arguments; these are the script's.
        yield found(max_completion_len=1280, soft_punish_cache=256) if name == "get_soft_overlong_punishment" else found


def _tokenizer(training: Any, model: Any) -> Any:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(
        model.model_name_or_path,
        revision=training.model_init_kwargs.get("revision"),
        trust_remote_code=training.trust_remote_code,
    )
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    return tokenizer
