"""The trainers in words: what each does, what it needs beside a model and data, and what its curves should do.

What they need was read in TRL 1.16.0 and seen in runs; the metrics are those that its trainers log. What a good curve
looks like follows from each objective: a preference loss starts at ln 2, where both answers are equally likely.
"""

from __future__ import annotations

from kerneltui.records import Record


class About(Record):
    """A trainer in words. `curves` maps the metrics to watch, most telling first, to how a good one looks.

    `packages` are requirements for pip without which it does not start.
    """

    does: str
    needs: str = ""
    curves: dict[str, str] = {}
    packages: tuple[str, ...] = ()


_LN2 = "falls from 0.69 (ln 2)"
_REWARD_NEEDS = "a reward: functions (reward_funcs) or a model (reward_model_name_or_path)"
_TEACHER_NEEDS = "a teacher with the same vocabulary (teacher_model_name_or_path)"
_VLLM = ("trl[vllm]",)
_TEXT = {
    "loss": "falls fast, then ever more slowly",
    "mean_token_accuracy": "rises, then levels off",
    "entropy": "falls slowly",
}
_PAIRS = {
    "loss": _LN2,
    "rewards/accuracies": "rises from 0.5 to 0.7 or more",
    "rewards/margins": "rises above 0",
    "rewards/rejected": "falls",
    "rewards/chosen": "rises, or falls far less",
}
_REWARDED = {
    "reward": "rises; noisy is normal",
    "reward_std": "stays above 0, or nothing is learned",
    "frac_reward_zero_std": "stays well below 1",
    "entropy": "falls slowly; at 0 all answers are alike",
    "completions/mean_length": "no jump towards the limit",
    "completions/clipped_ratio": "stays low, or answers are cut",
    "kl": "rises slowly, without jumps",
    "loss": "stays near 0; watch the reward instead",
}
_TAUGHT = {
    "loss": "falls towards 0",
    "completions/mean_length": "no jump towards the limit",
    "entropy": "moves to the teacher's",
}
_LOSS = {"loss": "falls towards 0"}
_ANY = {
    "grad_norm": "steady, without growing spikes",
    "learning_rate": "follows its schedule",
    "num_tokens": "rises evenly",
    "step_time": "steady",
}

ABOUT: dict[str, About] = {
    "sft": About(does="learns to answer as the examples do", curves=_TEXT),
    "dpo": About(does="learns which of two answers is better", curves=_PAIRS),
    "kto": About(
        does="learns from answers marked good or bad",
        curves={
            "loss": "falls from 0.5",
            "rewards/margins": "rises above 0",
            "kl": "stays small",
            "rewards/rejected": "falls",
            "rewards/chosen": "rises, or falls far less",
        },
    ),
    "reward": About(
        does="learns to score answers, for another trainer",
        curves={
            "accuracy": "rises from 0.5 to 0.7 or more",
            "margin": "rises above 0",
            "loss": _LN2,
            "mean_reward": "stays near 0",
        },
    ),
    "grpo": About(does="tries answers and learns from their reward", needs=_REWARD_NEEDS, curves=_REWARDED),
    "rloo": About(does="as GRPO, each answer against the others", needs=_REWARD_NEEDS, curves=_REWARDED),
    "distillation": About(does="learns to answer as a larger model does", needs=_TEACHER_NEEDS, curves=_TAUGHT),
    "gkd": About(does="as distillation, on its own and on given answers", needs=_TEACHER_NEEDS, curves=_LOSS),
    "gold": About(
        does="as GKD, also from a teacher with another tokenizer",
        needs="a teacher (teacher_model_name_or_path); use_uld_loss where its tokenizer is another",
        curves=_LOSS,
    ),
    "iw_opd": About(
        does="distillation that weighs the student's own tokens",
        needs="a teacher (teacher_model_name_or_path), or one on a vLLM server (use_teacher_server)",
        curves=_LOSS,
    ),
    "server_distillation": About(
        does="distillation from a teacher on a server",
        needs="a vLLM server with the teacher: vllm serve TEACHER, its address in teacher_model_server_url",
        curves=_TAUGHT,
    ),
    "async_distillation": About(
        does="distillation that generates and trains side by side",
        needs="vLLM, a server for the student (trl vllm-serve) and one for the teacher, on other GPUs",
        curves={**_TAUGHT, "jsd": "falls towards 0"},
        packages=_VLLM,
    ),
    "async_grpo": About(
        does="GRPO that generates and trains side by side",
        needs=f"vLLM, a server on another GPU (trl vllm-serve --model MODEL), and {_REWARD_NEEDS}",
        curves=_REWARDED,
        packages=_VLLM,
    ),
    "gmpo": About(does="GRPO with the geometric mean of a sequence", needs=_REWARD_NEEDS, curves=_REWARDED),
    "a2po": About(
        does="learns from the advantage over the first model",
        needs=_REWARD_NEEDS,
        curves={"reward": "rises; noisy is normal", "loss": "falls", "advantage": "nears 0"},
    ),
    "sdpo": About(
        does="teaches itself with its own best answers",
        needs=_REWARD_NEEDS,
        curves={"self_distillation/reward_mean": "rises", "self_distillation/distillation_loss": "falls"},
    ),
    "sdft": About(
        does="teaches itself with knowledge that it will not have",
        needs="a column privileged_context beside the prompts",
        curves={"self_distillation/distillation_loss": "falls", "loss": "falls"},
    ),
    "online_dpo": About(
        does="DPO on two answers of its own, scored while training",
        needs=_REWARD_NEEDS,
        curves={
            "objective/scores_margin": "stays above 0",
            "objective/scores": "rises",
            "objective/kl": "rises slowly, without jumps",
            "loss": _LN2,
        },
    ),
    "orpo": About(
        does="SFT and preference in one, without a reference",
        curves={**_PAIRS, "loss": "falls", "nll_loss": "falls", "log_odds_ratio": "rises towards 0"},
    ),
    "cpo": About(
        does="preference with a likelihood term, without a reference",
        curves={**_PAIRS, "loss": "falls", "nll_loss": "falls"},
    ),
    "tpo": About(
        does="preference with a third, best answer",
        needs="a column reference with the best answer",
        curves={**_PAIRS, "loss": "falls"},
    ),
}
"""The trainers of TRL 1.16.0; another release may have others."""


def good_curve(trainer: str | None, metric: str) -> str | None:
    """Return how a good curve of a metric looks under a trainer, None where nothing is known of it."""
    about = ABOUT.get(trainer or "")
    metric = metric.removeprefix("eval_")
    return (about.curves.get(metric) if about else None) or _ANY.get(metric)


def good_curves(trainer: str, most: int = 9) -> str:
    """Return the metrics to watch and how good ones look, in one line; "" for a trainer that is not known."""
    curves = ABOUT[trainer].curves if trainer in ABOUT else {}
    return "; ".join(f"{metric} {good}" for metric, good in list(curves.items())[:most])
