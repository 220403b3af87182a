"""Which fields do nothing with the values that others have.

TRL says it for some in the help text of the field, which is read here; what its help does not say stands in a table,
read in TRL 1.16.0 and transformers 5.22.2. A field that neither names counts.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kerneltui.plan.fields import Field

_EVALUATION = "eval_steps eval_delay eval_on_start per_device_eval_batch_size eval_packing num_generations_eval \
eval_accumulation_steps eval_do_concat_batches eval_use_gather_object batch_eval_metrics dataset_test_split \
bf16_full_eval fp16_full_eval prediction_loss_only include_for_metrics load_best_model_at_end generate_during_eval"
_ENTROPY = "entropy_target entropy_coef_min entropy_coef_max entropy_coef_delta"
_SERVER = "vllm_server_base_url vllm_server_host vllm_server_port vllm_server_timeout vllm_group_port"
_COLOCATED = "vllm_gpu_memory_utilization vllm_tensor_parallel_size vllm_max_model_length vllm_enable_sleep_mode"


class _Need(NamedTuple):
    """The fields (a name that ends in `*` stands for all that begin so) that count only where another one fits."""

    fields: str
    other: str
    fits: Callable[[Any], bool]
    words: str


def _one_of(*values: str) -> Callable[[Any], bool]:
    return lambda value: any(item in values for item in (value if isinstance(value, list) else [value]))


def _none_of(*values: str) -> Callable[[Any], bool]:
    return lambda value: not _one_of(*values)(value)


def _positive(value: Any) -> bool:
    return isinstance(value, (int, float)) and value > 0


_NEEDS = (
    _Need("lora_* use_rslora use_dora", "use_peft", bool, "LoRA is off"),
    _Need("bnb_4bit_* use_bnb_nested_quant", "load_in_4bit", bool, "the weights are not loaded in 4 bits"),
    _Need("packing_strategy", "packing", bool, "packing is off"),
    _Need("gradient_checkpointing_kwargs", "gradient_checkpointing", bool, "activations are not recomputed"),
    _Need("liger_kernel_config", "use_liger_kernel", bool, "Liger kernels are off"),
    _Need("torch_compile_*", "torch_compile", bool, "torch.compile is off"),
    _Need("num_train_epochs", "max_steps", lambda value: not _positive(value), "max_steps ends the run"),
    _Need("save_steps", "save_strategy", _one_of("steps"), "it does not save by steps"),
    _Need(
        "save_only_model save_total_limit save_on_each_node", "save_strategy", _none_of("no"), "no checkpoint is saved"
    ),
    _Need("logging_steps", "logging_strategy", _one_of("steps"), "it does not log by steps"),
    _Need(_EVALUATION, "eval_strategy", _none_of("no"), "evaluation is off"),
    _Need("eval_steps", "eval_strategy", _one_of("steps"), "it does not evaluate by steps"),
    _Need("metric_for_best_model greater_is_better", "load_best_model_at_end", bool, "the best is not looked for"),
    _Need("hub_*", "push_to_hub", bool, "nothing is pushed to the Hub"),
    _Need("run_name", "report_to", lambda value: bool(value) and value != ["none"], "no tracker is named"),
    _Need("project trackio_*", "report_to", _one_of("trackio", "all"), "only Trackio reads it"),
    _Need("dataloader_prefetch_factor dataloader_persistent_workers", "dataloader_num_workers", _positive, "the data \
is loaded without workers"),
    _Need("dataset_* streaming", "datasets", lambda value: not value, "datasets says what to train on"),
    _Need("test_split_size streaming", "datasets", bool, "only data under datasets is split"),
    _Need("precompute_ref_batch_size", "precompute_ref_log_probs", bool, "the reference is not computed first"),
    _Need("ref_model_*", "sync_ref_model", bool, "the reference does not move"),
    _Need("discopop_tau", "loss_type", _one_of("discopop"), "the loss is not discopop"),
    _Need("sapo_*", "loss_type", _one_of("sapo"), "the loss is not sapo"),
    _Need("vespo_*", "loss_type", _one_of("vespo"), "the loss is not vespo"),
    _Need("sync_ref_model ref_model_* use_bias_correction_kl", "beta", lambda beta: beta != 0, "beta is 0, so there \
is no reference"),
    _Need("num_completions_to_print log_unique_prompts log_multimodal log_completions_hub_repo", "log_completions",
          bool, "answers are not logged"),
    _Need(_ENTROPY, "use_adaptive_entropy", bool, "the entropy bonus does not adapt"),
    _Need("vllm_*", "use_vllm", bool, "vLLM is off"),
    _Need(_SERVER, "vllm_mode", _one_of("server"), "vLLM shares the GPU and has no server"),
    _Need(_COLOCATED, "vllm_mode", _one_of("colocate"), "vLLM runs on a server"),
    _Need("cache_implementation use_transformers_continuous_batching transformers_continuous_batching_config",
          "use_vllm", lambda value: not value, "vLLM generates"),
    _Need("transformers_continuous_batching_config", "use_transformers_continuous_batching", bool,
          "continuous batching is off"),
    _Need("teacher_model_server_url", "use_teacher_server", bool, "the teacher is not on a server"),
    _Need("uld_* use_extended_uld", "use_uld_loss", bool, "the ULD loss is off"),
    _Need("uld_hybrid_*", "uld_use_hybrid_loss", bool, "the hybrid loss is off"),
    _Need("fsdp_config", "fsdp", bool, "FSDP is off"),
)  # fmt: skip
# Names that begin like those of a group and do not belong to it.
_APART = ("dataset_text_field", "dataset_num_proc", "dataset_kwargs")

# What TRL's help texts say: the other field, and the value that it must have.
_VALUE = re.compile(
    r"(?:only (?:used )?(?:when|if)|only applies when|must set)(?: the)? `?(\w+)(?:`? is set to `?|=)['\"]?([\w-]+)"
)
_IGNORED = re.compile(r"[Ii]f `(\w+)` is provided, this will be ignored|Ignored if `?(\w+)`? is provided")


def without_effect(field: Field, values: Mapping[str, Any]) -> str | None:
    """Return why a field does nothing with these values of a trainer's fields, None where it counts.

    A field that the values lack is not asked about.
    """
    for need in _NEEDS:
        if need.other in values and _names(need, field.name) and not need.fits(values[need.other]):
            return need.words
    return _by_help(field, values)


def _names(need: _Need, name: str) -> bool:
    if name == need.other or name in _APART:
        return False
    return any(name.startswith(it[:-1]) if it.endswith("*") else name == it for it in need.fields.split())


def _by_help(field: Field, values: Mapping[str, Any]) -> str | None:
    """Return what the help text of the field says, in words of ours."""
    wanted, instead = _said(field.help)
    for name, value in wanted:
        if name in values and name != field.name and not _is(values[name], value):
            return f"it counts only where {name} is {value}"
    return next((f"{name} is given" for name in instead if values.get(name)), None)


@functools.lru_cache(maxsize=1024)
def _said(text: str) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    """Return what a help text wants of other fields, and the fields that are taken in its place."""
    wanted = tuple((name, value) for name, value in _VALUE.findall(text))
    return wanted, tuple(next(filter(None, names)) for names in _IGNORED.findall(text))


def _is(value: Any, wanted: str) -> bool:
    found = value if isinstance(value, list) else [value]
    return any(str(item).lower() == wanted.lower() for item in found)
