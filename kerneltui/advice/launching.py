"""How the run is spread and what its options need of the machine: processes, sequence parallelism, extra packages."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from packaging.version import Version

from kerneltui.advice.finding import Finding, Fix, Severity
from kerneltui.advice.fixes import install, use_native
from kerneltui.advice.situation import Situation
from kerneltui.plan.devices import count_devices

# The release in which TRL's trainers began to refuse nn.DataParallel (read in 1.14.2 and 1.15.0).
_REFUSES_DATA_PARALLEL = Version("1.15")
# What the vLLM of a run may be, by TRL's own check (trl.import_utils.is_vllm_available of 1.16.0).
_VLLM_RANGE = (Version("1.16"), Version("0.22.0"), Version("0.31.0"))
_NO_SEQUENCES = ("grpo", "rloo", "distillation")
# Optimizers by the beginning of their names, with the package that transformers takes each from (trainer_optimizer).
_OPTIMIZERS = {
    r"(paged_\w+|\w*(_bnb)?_8bit\w*|rmsprop_bnb\w*|ademamix\w*)": "bitsandbytes",
    r"galore_\w+": "galore-torch",
    r"apollo_\w+": "apollo-torch",
    r"lomo|adalomo": "lomo-optim",
    r"grokadamw": "grokadamw",
    r"schedule_free\w+": "schedulefree",
    r"adamw_torch_(4bit|8bit)": "torchao",
}


def data_parallel(situation: Situation) -> list[Finding]:
    """One process that sees several GPUs wraps the model in nn.DataParallel, which TRL's trainers do not support."""
    count, version = count_devices(situation.plan, situation.server), situation.version("trl")
    if situation.settings.get("use_cpu") or not count or count < 2 or situation.processes != 1 or version is None:
        return []
    refuses = version.release >= _REFUSES_DATA_PARALLEL.release
    return [
        _finding(
            "data_parallel", "block" if refuses else "warn", f"One process would see {count} GPUs",
            "transformers would spread each batch with nn.DataParallel. "
            + ("TRL refuses that when the trainer is built." if refuses else "TRL's trainers were not made for it."),
            situation.cite("trl", f"the constructor of {situation.plan.trainer}"),
            Fix(label="Start a process for each GPU", changes={"num_processes": count}),
        )
    ]  # fmt: skip


def device_map(situation: Situation) -> list[Finding]:
    """A model that is spread over GPUs cannot be copied to each process."""
    kwargs = situation.settings.model_kwargs
    if situation.processes < 2 or not kwargs.get("device_map"):
        return []
    left = {name: value for name, value in kwargs.items() if name != "device_map"}
    return [
        _finding(
            "device_map", "block", f"device_map does not go with {situation.processes} processes",
            "Each process trains a copy of the model on its own GPU; device_map would spread every copy over all of "
            "them.",
            "https://github.com/huggingface/accelerate/issues/2486",
            Fix(label="Leave out device_map", changes={"model_init_kwargs": left or None}),
        )
    ]  # fmt: skip


def context_parallel(situation: Situation) -> list[Finding]:
    """Context parallelism drops masks: no packing, no other attention than sdpa, no windows, no online trainers."""
    size, trainer, model = _size(situation, "cp"), situation.plan.trainer, situation.model
    if size < 2:
        return []
    get = situation.settings.get
    source = situation.cite("trl", "SFTTrainer.__init__ (cp_size)")
    found = []
    if trainer in _NO_SEQUENCES:
        found.append(_sequences_refused(situation, "cp_size"))
    if trainer == "sft" and (get("packing") or get("eval_packing")):
        fix = Fix(label="Do not pack", changes={"packing": None, "eval_packing": None})
        why = "It drops the mask that keeps packed samples apart, so SFT refuses the pair."
        found.append(
            _finding("context_packing", "block", "Context parallelism does not go with packing", why, source, fix)
        )
    if situation.attention.implementation != "sdpa":
        name = situation.attention.implementation
        why = "It exchanges keys and values inside sdpa; another attention is refused at the first step."
        title = f"Context parallelism works with sdpa only, not with {name}"
        where = situation.cite("transformers", "Trainer (context parallelism)")
        found.append(_finding("context_attention", "block", title, why, where, use_native(situation)))
    kinds = set(model.layer_types) - {"full_attention"} if model else set()
    if model and (kinds or model.window):
        what = ", ".join(sorted(kinds)) or f"a window of {model.window} tokens"
        title = f"Context parallelism does not go with {what}"
        why = "accelerate refuses layers that do not attend to everything before them."
        where = situation.cite("accelerate", "big_modeling (context parallelism)")
        found.append(_finding("context_window", "block", title, why, where))
    return found


def sequence_parallel(situation: Situation) -> list[Finding]:
    """Sequence parallelism of DeepSpeed has some attention implementations and the plain loss only."""
    if _size(situation, "sp") < 2:
        return []
    get, trainer, model = situation.settings.get, situation.plan.trainer, situation.model
    found = [_sequences_refused(situation, "sp_size")] if trainer in _NO_SEQUENCES else []
    named = str(situation.settings.accelerate.get("parallelism_config_sp_attn_implementation") or "sdpa")
    if not re.fullmatch(r"flash_attention_[23]|sdpa|[^/]+/.*flash-attn.*", named):
        title = f"Sequence parallelism does not work with {named}"
        where = situation.cite("accelerate", "utils.dataclasses.DeepSpeedSequenceParallelConfig")
        found.append(_finding("sequence_attention", "block", title, "It takes sdpa or flash attention.", where))
    if trainer == "sft" and (get("loss_type") == "dft" or get("label_smoothing_factor")):
        fix = Fix(label="Take the plain loss", changes={"loss_type": None, "label_smoothing_factor": None})
        title = "Sequence parallelism has the plain loss only"
        why = "The loss is made inside the model and joined across processes: neither dft nor label smoothing."
        where = situation.cite("trl", "SFTTrainer.__init__ (sp_size)")
        found.append(_finding("sequence_loss", "block", title, why, where, fix))
    if model and (model.recurrent or "linear_attention" in model.layer_types):
        title = "Sequence parallelism does not go with layers that keep a state"
        where = situation.cite("accelerate", "big_modeling (sequence parallelism)")
        found.append(_finding("sequence_state", "block", title, "accelerate refuses them.", where))
    return found


def offloading_on_cpu(situation: Situation) -> list[Finding]:
    """`activation_offloading` moves activations off a GPU; on the CPU it raises an error of Python's."""
    if not situation.settings.get("activation_offloading") or situation.on_gpu is not False:
        return []
    fix = Fix(label="Leave it out", changes={"activation_offloading": None})
    why = "It keeps activations in the host's memory during the forward pass. Without a GPU it raises AttributeError."
    where = situation.cite("trl", "models.activation_offloading")
    return [_finding("offloading", "block", "activation_offloading needs a GPU", why, where, fix)]


def liger_on_cpu(situation: Situation) -> list[Finding]:
    """Liger's kernels are Triton's, which has no CPU driver."""
    if not situation.settings.get("use_liger_kernel") or situation.on_gpu is not False:
        return []
    fix = Fix(label="Train without Liger", changes={"use_liger_kernel": None})
    why = "Its kernels are written in Triton, which raises at the first forward pass where no GPU is."
    return [
        _finding("liger_cpu", "block", "use_liger_kernel needs a GPU", why, "liger-kernel 0.8.5, run on a CPU", fix)
    ]


def quantized(situation: Situation) -> list[Finding]:
    """Weights in 4 or 8 bits need bitsandbytes."""
    get, server = situation.settings.get, situation.server
    field = next((name for name in ("load_in_4bit", "load_in_8bit") if get(name)), None)
    if field is None or not server.packages:
        return []
    found = []
    fix = Fix(label="Load them in 16 bits", changes={field: None})
    if "bitsandbytes" not in server.packages:
        title = f"{field} needs the package bitsandbytes, which is not installed"
        where = situation.cite("transformers", "quantizers (bitsandbytes)")
        found.append(
            _finding(
                "bitsandbytes", "block", title, "Loading the model would fail.", where,
                install(server, "Install it", "bitsandbytes"), fix,
            )
        )  # fmt: skip
    if not get("use_peft"):
        title = f"{field} without an adapter leaves nothing to train"
        why = "Quantized weights have no gradient; transformers refuses to train them without an adapter on top."
        where = situation.cite("transformers", "Trainer (validate_quantization_for_training)")
        adapter = Fix(label="Train an adapter (LoRA)", changes={"use_peft": True})
        found.append(_finding("quantized_weights", "block", title, why, where, adapter, fix))
    return found


def optimizer_package(situation: Situation) -> list[Finding]:
    """Some optimizers come from packages of their own, which transformers looks for at the first step."""
    name, packages = str(situation.settings.get("optim") or ""), situation.server.packages
    needed = next((package for pattern, package in _OPTIMIZERS.items() if re.fullmatch(pattern, name)), None)
    if needed is None or not packages or needed in packages or "optim" not in situation.settings.given:
        return []
    title = f"The optimizer {name} needs the package {needed}"
    why = "It was not seen among the installed packages; transformers asks for it at the first step."
    fixes = (
        Fix(label="Take the default optimizer", changes={"optim": None}),
        install(situation.server, "Install it", needed),
    )
    severity: Severity = "block" if needed == "bitsandbytes" else "warn"
    return [_finding("optimizer", severity, title, why, situation.cite("transformers", "Trainer (optim)"), *fixes)]


def vllm_range(situation: Situation) -> list[Finding]:
    """TRL warns of a vLLM outside the range that it was made for."""
    installed, version = situation.version("vllm"), situation.version("trl")
    since, low, high = _VLLM_RANGE
    if not situation.settings.get("use_vllm") or installed is None or version is None:
        return []
    if version.release[:2] != since.release[:2] or low.release <= installed.release <= high.release:
        return []
    title = f"TRL {version} was made for vLLM {low} to {high}, and {installed} is installed"
    fix = install(situation.server, "Install one of them", f"vllm>={low},<={high}")
    why = "TRL warns and goes on; what then happens was not tried."
    where = situation.cite("trl", "import_utils.is_vllm_available")
    return [_finding("vllm_range", "warn", title, why, where, fix)]


def _sequences_refused(situation: Situation, field: str) -> Finding:
    trainer = situation.plan.trainer
    why = "It makes its batches after generating, inside the trainer, so they cannot be split along the sequence."
    where = situation.cite("trl", f"the configuration class of {trainer}")
    return _finding("sequences", "block", f"{trainer} does not support {field} above 1", why, where)


def _size(situation: Situation, kind: str) -> int:
    """Return how many processes share a sequence: of the plan's own mapping, or of accelerate's arguments."""
    found: Any = situation.settings.get("parallelism_config")
    size = found.get(f"{kind}_size") if isinstance(found, dict) else None
    size = size or situation.settings.accelerate.get(f"parallelism_config_{kind}_size") or 1
    return int(size) if str(size).isdigit() else 1


def _finding(name: str, severity: Severity, title: str, why: str, source: str, *fixes: Fix) -> Finding:
    return Finding(
        id=f"launching.{name}", severity=severity, title=title, why=why, origin="known", source=source, fixes=fixes
    )


RULES: tuple[Callable[[Situation], list[Finding]], ...] = (
    *(data_parallel, device_map, context_parallel, sequence_parallel, offloading_on_cpu, liger_on_cpu),
    *(quantized, optimizer_package, vllm_range),
)
