"""What a trainer says of its options: its own constructor is called with them, on a tiny model and rows that it takes.

So what this release of TRL refuses, and what it warns of, comes from itself. What depends on the person's model, data,
GPUs or network is left out here; rules speak of that.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import re
import tempfile
import warnings
from collections.abc import Iterator
from typing import Any

from . import experimental
from .prepared import classes, good_rows, quiet, sees_no_network

# Options about the machine, the network, the model and the data, whose answer here would be another one.
_LEFT_OUT = re.compile(
    r"(output_dir|use_cpu|[a-z]*16(_full_eval)?|tf32|push_to_hub|hub_\w+|deepspeed|fsdp\w*|parallelism_config"
    r"|torch_compile\w*|resume_from_checkpoint|use_vllm|vllm_\w+|\w*model_init_kwargs|teacher_model_\w+|eos_token"
    r"|pad_token|chat_template_\w+|router_aux_loss_coef|report_to|optim|dataloader_\w+|dataset_\w+|eval_\w+|save_\w+"
    r"|load_best_model_at_end|logging_\w+|log_\w+|metric_for_best_model|activation_offloading|assistant_only_loss"
    r"|completion_only_loss|use_transformers_continuous_batching|skip_memory_metrics|ddp_\w+|local_rank|tokenizer\w*"
    r"|max_steps|num_train_epochs|per_device_eval_batch_size|gradient_accumulation_steps|accelerator_config|tools"
    r"|trust_remote_code|disable_tqdm|num_generations_eval|generation_batch_size|steps_per_generation)"
)
# Numbers that the configuration class was asked about already, made small here.
_SMALL = {"num_generations": 2, "max_completion_length": 4, "max_new_tokens": 4}
_FIXED: dict[str, Any] = {
    "use_cpu": True, "bf16": False, "report_to": "none", "disable_tqdm": True, "max_steps": 1,
    "save_strategy": "no", "dataloader_pin_memory": False, **_SMALL,
}  # fmt: skip


def construct(trainer: str, values: dict[str, Any], model: str, rewards: int = 1) -> dict[str, Any]:
    """Return `{"refused", "said"}`: what the constructor raises with the values that a person gave, and its warnings.

    `refused` is `{type, message, field}` or None; `model` is the folder of a tiny model, `rewards` how many reward
    functions there are. `left_out` names the given options that were not tried.
    """
    left_out = sorted(name for name in values if _LEFT_OUT.fullmatch(name))
    options = {name: value for name, value in values.items() if name not in left_out}
    said: list[str] = []
    refused = None
    try:
        with _remembered(said):
            build(trainer, options, model, rewards)
    except Exception as error:  # noqa: BLE001 - whatever a trainer raises is what the person must know
        refused = _refusal(error, options)
    return {"refused": refused, "said": _about(said, options), "left_out": left_out}


def build(trainer: str, options: dict[str, Any], model: str, rewards: int) -> None:
    """Call the constructor of a trainer; raises what it raises. Of `options` it takes those that are its own."""
    from transformers import AutoTokenizer

    trainer_class, config_class = classes(trainer)
    tokenizer = AutoTokenizer.from_pretrained(model)
    takes = experimental.parameters(trainer_class)
    fields = {field.name for field in dataclasses.fields(config_class) if field.init}
    batch = options.get("per_device_train_batch_size", 2)
    small = {**_FIXED, "per_device_train_batch_size": min(batch, 2) if isinstance(batch, int) else batch}
    if "num_generations" in fields:
        small["per_device_train_batch_size"] = _SMALL["num_generations"]
    with tempfile.TemporaryDirectory() as folder, quiet(warn=True), sees_no_network():
        arguments = {name: value for name, value in {**options, **small}.items() if name in fields}
        given: dict[str, Any] = {
            "model": model,
            "args": config_class(output_dir=folder, **arguments),
            "train_dataset": good_rows(trainer, {}, tokenizer),
            "processing_class": tokenizer,
            "peft_config": _peft_config(options),
            "teacher_model": model,
            "reward_funcs": [_reward] * rewards,
        }
        trainer_class(**{name: value for name, value in given.items() if name in takes and value is not None})


def _reward(completions: list[Any], **_: Any) -> list[float]:
    return [float(number) for number, _ in enumerate(completions)]


def _peft_config(options: dict[str, Any]) -> Any:
    """Return the adapter that is asked for; of its modules only those that every model has."""
    if not options.get("use_peft"):
        return None
    from peft import LoraConfig

    named = options.get("lora_target_modules") or []
    targets = [named] if isinstance(named, str) else list(named)
    kept = ["q_proj", *(name for name in targets if name == "lm_head")]
    saved = [name for name in options.get("lora_modules_to_save") or [] if name in ("lm_head", "embed_tokens")]
    return LoraConfig(r=2, target_modules=kept, modules_to_save=saved or None)


def _refusal(error: Exception, options: dict[str, Any]) -> dict[str, Any]:
    message = str(error)
    named = [word for word in re.findall(r"\w+", message) if word in options]
    return {"type": type(error).__name__, "message": message, "field": named[0] if named else None}


def _about(said: list[str], options: dict[str, Any]) -> list[str]:
    """Return the warnings that name an option which the person gave, each once."""
    found = [text for text in said if any(re.search(rf"\b{re.escape(name)}\b", text) for name in options)]
    return list(dict.fromkeys(" ".join(text.split()) for text in found))


class _Remember(logging.Handler):
    """Keeps the warnings that TRL logs."""

    def __init__(self, said: list[str]) -> None:
        super().__init__(logging.WARNING)
        self.said = said

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one."""
        self.said.append(record.getMessage())


@contextlib.contextmanager
def _remembered(said: list[str]) -> Iterator[None]:
    """Add what is warned of meanwhile to `said`, as it was said."""
    handler, logger = _Remember(said), logging.getLogger("trl")
    logger.addHandler(handler)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
    finally:
        logger.removeHandler(handler)
        said += [str(warning.message) for warning in caught]


def trackers(report_to: Any) -> dict[str, Any]:
    """Return `{"missing", "unknown", "known"}` of the trackers that `report_to` names, as transformers looks for them.

    `missing` are those whose package is not installed, `unknown` those that this transformers does not know.
    """
    from transformers.integrations import integration_utils

    known = sorted(integration_utils.INTEGRATION_TO_CALLBACK)
    named = [report_to] if isinstance(report_to, str) else list(report_to or [])
    asked = [name for name in named if name not in ("none", "all")]
    there = integration_utils.get_available_reporting_integrations()
    return {
        "missing": [name for name in asked if name in known and name not in there and _lacks(integration_utils, name)],
        "unknown": [name for name in asked if name not in known],
        "known": known,
    }


def _lacks(utils: Any, name: str) -> bool:
    """Whether the package of a tracker is not there; transformers lists only some of those that it can ask about."""
    check = getattr(utils, f"is_{name}_available", None)
    return check is not None and not check()


HANDLERS = {"trl.construct": construct, "transformers.trackers": trackers}
