"""Options of losses and rewards that no constructor looks at: refused at the first step, or without any effect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from packaging.version import Version

from kerneltui.advice.finding import Finding, Fix, Severity
from kerneltui.advice.situation import Situation
from kerneltui.text import nearest

# Names that each trainer compares at its first step (read in TRL 1.10.0 and 1.16.0; the union of both).
_NAMES: dict[tuple[str, str], tuple[str, ...]] = {
    ("dpo", "loss_type"): (
        *("sigmoid", "hinge", "ipo", "exo_pair", "nca_pair", "robust", "bco_pair", "sppo_hard", "aot", "aot_unpaired"),
        *("apo_zero", "apo_down", "discopop", "sft", "sigmoid_norm"),
    ),
    ("dpo", "f_divergence_type"): ("reverse_kl", "forward_kl", "js_divergence", "alpha_divergence"),
    ("kto", "loss_type"): ("kto", "apo_zero_unpaired"),
    ("grpo", "loss_type"): ("grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo", "luspo", "vespo"),
    ("grpo", "importance_sampling_level"): ("token", "sequence"),
    ("grpo", "scale_rewards"): ("batch", "group", "none", "True", "False"),
}
# The first release whose SFT knows selective recomputing (read in 1.14.2 and 1.15.0).
_SELECTIVE = (1, 15)
# Liger's loss knew this name only as GRPO's until its losses left the trainers (huggingface/trl issue 6808).
_LIGER_LOSSES_LEFT = Version("1.14")


def unknown_name(situation: Situation) -> list[Finding]:
    """A name that the loss does not know is refused at the first step, after model and data were loaded."""
    found = []
    for (trainer, field), names in _NAMES.items():
        value = situation.settings.get(field)
        if trainer != situation.plan.trainer or field not in situation.settings.given:
            continue
        wrong = [str(it) for it in (value if isinstance(value, list) else [value]) if it is not None]
        found += [_unknown(situation, field, name, names) for name in wrong if name not in names]
    return found


def smoothing_without_effect(situation: Situation) -> list[Finding]:
    """SFT's dft loss does not look at label smoothing."""
    get = situation.settings.get
    if situation.plan.trainer != "sft" or get("loss_type") != "dft" or not get("label_smoothing_factor"):
        return []
    why = "Only the plain loss is smoothed; with dft the option is left aside without a word."
    where = situation.cite("trl", "SFTTrainer.compute_loss")
    fixes = (
        Fix(label="Leave it out", changes={"label_smoothing_factor": None}),
        Fix(label="Take the plain loss", changes={"loss_type": "nll"}),
    )
    return [_finding("smoothing", "warn", "label_smoothing_factor has no effect with the loss dft", why, where, *fixes)]


def reward_task(situation: Situation) -> list[Finding]:
    """The `reward` command does not set the task of its adapter, which then is that of a text model."""
    get = situation.settings.get
    if situation.plan.trainer != "reward" or not get("use_peft") or get("lora_task_type") == "SEQ_CLS":
        return []
    why = "The command leaves it at CAUSAL_LM, and peft then asks a model that scores for what only a text model has. "
    why += "The head that scores is new, so it must be trained and saved as a whole."
    where = situation.cite("trl", "scripts.reward")
    fix = Fix(
        label="Set the task, and train the head",
        changes={"lora_task_type": "SEQ_CLS", "lora_modules_to_save": ["score"]},
    )
    return [
        _finding("reward_task", "block", "The adapter of a reward model needs lora_task_type SEQ_CLS", why, where, fix)
    ]


def selective_recomputing(situation: Situation) -> list[Finding]:
    """Only SFT knows the key `selective`; elsewhere it reaches torch, which refuses it at the first step."""
    get, version = situation.settings.get, situation.version("trl")
    kwargs = get("gradient_checkpointing_kwargs")
    wanted = isinstance(kwargs, dict) and "selective" in kwargs and get("gradient_checkpointing", True)
    known = situation.plan.trainer in ("sft", "gkd", "gold") and version is not None and version.release >= _SELECTIVE
    if not wanted or known:
        return []
    left = {name: value for name, value in kwargs.items() if name != "selective"}
    fix = Fix(label="Recompute everything", changes={"gradient_checkpointing_kwargs": left or None})
    title = f"{situation.plan.trainer} does not know selective recomputing"
    why = "SFT alone takes this key out; torch's checkpointing refuses it at the first step."
    where = situation.cite("trl", "SFTTrainer.__init__ (gradient_checkpointing_kwargs)")
    return [_finding("selective", "block", title, why, where, fix)]


def revision_of_reward_model(situation: Situation) -> list[Finding]:
    """GRPO and RLOO load the reward model with the arguments of the policy, its revision included."""
    get = situation.settings.get
    revision = situation.settings.model_kwargs.get("revision", get("model_revision"))
    if situation.plan.trainer not in ("grpo", "rloo") or not get("reward_model_name_or_path"):
        return []
    if revision in (None, "main"):
        return []
    title = f"The reward model would be loaded at {revision} as well"
    why = "The trainer loads it with the policy's model_init_kwargs, and model_revision is among them."
    where = situation.cite("trl", "GRPOTrainer.__init__ (reward models)")
    fix = Fix(label="Take the newest policy", changes={"model_revision": None})
    return [_finding("reward_revision", "warn", title, why, where, fix)]


def other_vocabulary(situation: Situation) -> list[Finding]:
    """A student learns from the teacher's distribution over the same tokens."""
    student, teacher = situation.model, situation.teacher
    if situation.plan.trainer not in ("distillation", "gkd") or student is None or teacher is None:
        return []
    if not student.vocabulary or not teacher.vocabulary or student.vocabulary == teacher.vocabulary:
        return []
    title = f"The teacher's vocabulary has {teacher.vocabulary} tokens, the student's {student.vocabulary}"
    why = "The loss compares their distributions token by token, so the trainer refuses the pair. Take models of one "
    why += "family and padding, or gold with use_uld_loss, which needs no common vocabulary."
    where = "https://github.com/huggingface/trl/issues/6252"
    return [_finding("vocabulary", "block", title, why, where)]


def generations_of_vespo(situation: Situation) -> list[Finding]:
    """VESPO corrects for vLLM's sampling by tokens; the default mode is by sequences."""
    get, mode = situation.settings.get, situation.settings.get("vllm_importance_sampling_mode")
    corrects = get("use_vllm") and get("vllm_importance_sampling_correction")
    if situation.plan.trainer != "grpo" or get("loss_type") != "vespo" or not corrects:
        return []
    if mode in ("token_truncate", "token_mask"):
        return []
    fix = Fix(label="Correct by tokens", changes={"vllm_importance_sampling_mode": "token_truncate"})
    title = f"The loss vespo does not go with vllm_importance_sampling_mode {mode}"
    where = situation.cite("trl", "GRPOTrainer.__init__")
    return [_finding("vespo", "block", title, "The trainer refuses it once the model is loaded.", where, fix)]


def liger_trains_grpo(situation: Situation) -> list[Finding]:
    """Before 1.14 GMPO with Liger's loss trained plain GRPO without a word."""
    version = situation.version("trl")
    if situation.plan.trainer != "gmpo" or not situation.settings.get("use_liger_kernel") or version is None:
        return []
    if version.release >= _LIGER_LOSSES_LEFT.release:
        return []
    fix = Fix(label="Train without Liger", changes={"use_liger_kernel": None})
    why = "Liger's loss in this release does not know GMPO's, and nothing says so."
    where = "https://github.com/huggingface/trl/issues/6808"
    return [_finding("gmpo_liger", "block", "gmpo with use_liger_kernel trains plain GRPO", why, where, fix)]


def _unknown(situation: Situation, field: str, name: str, names: tuple[str, ...]) -> Finding:
    trainer = situation.plan.trainer
    close = nearest(name, names)
    value: Any = close
    if isinstance(written := situation.settings.get(field), list):
        value = [close if it == name else it for it in written]
    fixes = (Fix(label=f"Set {field} to {close}", changes={field: value}),) if close else ()
    return _finding(
        f"name.{field}", "block", f"{trainer} knows no {field} {name!r}",
        f"It knows {', '.join(names)}, and refuses others at the first step.",
        situation.cite("trl", f"the loss of {trainer}"), *fixes, Fix(label="Take the default", changes={field: None}),
    )  # fmt: skip


def _finding(name: str, severity: Severity, title: str, why: str, source: str, *fixes: Fix) -> Finding:
    return Finding(
        id=f"losses.{name}", severity=severity, title=title, why=why, origin="known", source=source, fixes=fixes
    )


RULES: tuple[Callable[[Situation], list[Finding]], ...] = (
    *(unknown_name, smoothing_without_effect, reward_task, revision_of_reward_model, other_vocabulary),
    *(generations_of_vespo, liger_trains_grpo, selective_recomputing),
)
