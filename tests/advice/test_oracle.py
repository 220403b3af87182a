"""Generated plans for every trainer of the `trl` command: a check blocks what the real trainer refuses, and no other.

The oracle is the real parser, constructor and one step on the demo's model on the CPU (oracle.py).
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

TRAINERS = ("sft", "dpo", "kto", "reward", "grpo", "rloo", "distillation")
PLANS = 50

# Blocks that the oracle cannot contradict: the run would train, but not what the plan says, or not on other hardware.
SILENT = (
    "trainer.missing.reward_funcs",
    "packing.wrapped",
    "losses.smoothing",
    "losses.reward_revision",
    "limits.liger_head",
)
HARDWARE = ("device.", "dtype.flash", "dtype.bf16", "launching.liger_cpu", "launching.data_parallel", "health.")

_flag = st.booleans()
_COMMON: dict[str, st.SearchStrategy[Any]] = {
    "use_peft": _flag,
    "lora_target_modules": st.sampled_from([["q_proj"], ["q_proj", "lm_head"], ["all-linear"], ["v_proj"]]),
    "lora_task_type": st.sampled_from(["CAUSAL_LM", "SEQ_CLS"]),
    "dtype": st.sampled_from(["auto", "float32", "bfloat16", "bf16", "float"]),
    "attn_implementation": st.sampled_from(["sdpa", "eager", "sdpaa"]),
    "bf16": _flag,
    "fp16": _flag,
    "gradient_checkpointing": _flag,
    "gradient_checkpointing_kwargs": st.sampled_from([{"use_reentrant": False}, {"selective": True}]),
    "activation_offloading": _flag,
    "report_to": st.sampled_from(["none", "tensorboard", "jsonl"]),
    "optim": st.sampled_from(["adamw_torch", "adamw_torch_fused", "adafactor", "adamw_8bit", "sgd"]),
    "lr_scheduler_type": st.sampled_from(["linear", "cosine", "constant", "cosinee"]),
    "max_seq_length": st.just(64),
    "torch_dtype": st.just("float32"),
    "learning_rate": st.sampled_from([1e-4, "1e-4", "fast"]),
    "router_aux_loss_coef": st.sampled_from([0.0, 0.1]),
    "load_in_4bit": _flag,
    "load_in_8bit": _flag,
    "per_device_train_batch_size": st.sampled_from([1, 2]),
    "gradient_accumulation_steps": st.sampled_from([1, 2]),
    "model_init_kwargs": st.sampled_from([{"dtype": "float32"}, {"attn_implementation": "eager"}]),
    "use_cpu": st.just(True),
    "label_smoothing_factor": st.sampled_from([0.0, 0.1]),
}
_REFERENCE: dict[str, st.SearchStrategy[Any]] = {
    "sync_ref_model": _flag,
    "precompute_ref_log_probs": _flag,
    "max_length": st.sampled_from([32, 64, None]),
}
_ONLINE: dict[str, st.SearchStrategy[Any]] = {
    "num_generations": st.sampled_from([1, 2, 3, 4]),
    "generation_batch_size": st.sampled_from([2, 3, 4]),  # two rows: no more than two groups
    "steps_per_generation": st.sampled_from([1, 2]),
    "beta": st.sampled_from([0.0, 0.1]),
    "sync_ref_model": _flag,
    "reward_weights": st.sampled_from([[1.0], [1.0, 0.5]]),
    "reward_funcs": st.sampled_from([["think_format_reward"], []]),
    "auto_find_batch_size": _flag,
    "use_vllm": _flag,
}
_OWN: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "sft": {
        "packing": _flag,
        "packing_strategy": st.sampled_from(["bfd", "bfd_split", "wrapped", "best"]),
        "padding_free": _flag,
        "eval_packing": _flag,
        "max_length": st.sampled_from([32, 64, None]),
        "loss_type": st.sampled_from(["nll", "dft", "chunked_nll", "mse"]),
        "truncation_mode": st.sampled_from(["keep_start", "keep_end", "middle"]),
    },
    "dpo": {
        **_REFERENCE,
        "loss_type": st.sampled_from([["sigmoid"], ["exo_pair"], ["aot"], ["sigmoid", "sft"], ["sigmoyd"], ["robust"]]),
        "loss_weights": st.sampled_from([[1.0], [1.0, 0.5]]),
        "f_divergence_type": st.sampled_from(["reverse_kl", "js_divergence", "alpha", "forward_kl"]),
        "label_smoothing": st.sampled_from([0.0, 0.1]),
        "use_weighting": _flag,
        "padding_free": _flag,
        "truncation_mode": st.sampled_from(["keep_start", "keep_end", "middle"]),
    },
    "kto": {
        **_REFERENCE,
        "loss_type": st.sampled_from(["kto", "apo_zero_unpaired", "ktoo"]),
        "train_sampling_strategy": st.sampled_from(["sequential", "random"]),
    },
    "reward": {"max_length": st.sampled_from([32, 64, None]), "center_rewards_coefficient": st.sampled_from([0.01])},
    "grpo": {
        **_ONLINE,
        "loss_type": st.sampled_from(["grpo", "dapo", "bnpo", "dr_grpo", "cispo", "sapo", "luspo", "vespo", "gspo"]),
        "importance_sampling_level": st.sampled_from(["token", "sequence", "word"]),
        "scale_rewards": st.sampled_from(["batch", "group", "none", "rows"]),
    },
    "rloo": _ONLINE,
    "distillation": {
        "beta": st.sampled_from([0.0, 0.5, 1.0, 2.0]),
        "temperature": st.sampled_from([1.0, 0.5]),
        "lmbda": st.sampled_from([0.0, 1.0]),
    },
}


def plans(trainer: str) -> st.SearchStrategy[dict[str, Any]]:
    """Return plans with one to four options, of the trainer's own and of those that all have."""
    every = {**_COMMON, **_OWN[trainer]}
    own = list(_OWN[trainer])
    names = st.lists(st.sampled_from([*every, *own, *own]), min_size=1, max_size=4, unique=True)
    return names.flatmap(lambda chosen: st.fixed_dictionaries({name: every[name] for name in chosen}))


class Oracle:
    """A process that answers for one trainer."""

    def __init__(self, trainer: str) -> None:
        command = [sys.executable, "-m", "tests.advice.oracle", trainer]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
        )

    def ask(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return what the real trainer and a check say of a plan."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(values) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(timeout=60)


@pytest.fixture
def oracle(request: pytest.FixtureRequest) -> Iterator[Oracle]:
    process = Oracle(request.param)
    yield process
    process.close()


def disagreement(answer: dict[str, Any]) -> str | None:
    """Return how a check and the real trainer differ on a plan, None where they agree."""
    blocks = [it for it in answer["block"] if not it.startswith((*SILENT, *HARDWARE))]
    if answer["real"] is None and blocks:
        return "blocked, and it trains"
    if answer["real"] is not None and not answer["block"]:
        return "not blocked, and it fails"
    return None


@pytest.mark.full
@pytest.mark.parametrize(("oracle", "trainer"), [(it, it) for it in TRAINERS], indirect=["oracle"], ids=TRAINERS)
def test_a_check_blocks_what_the_trainer_refuses_and_no_other(oracle: Oracle, trainer: str) -> None:
    wrong: list[tuple[str, dict[str, Any], dict[str, Any]]] = []
    asked = {"refused": 0, "made a step": 0}

    @settings(
        max_examples=PLANS, phases=[Phase.generate], deadline=None, derandomize=True, database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )  # fmt: skip
    @given(plans(trainer))
    def compare(values: dict[str, Any]) -> None:
        answer = oracle.ask(values)
        asked["refused" if answer["real"] else "made a step"] += 1
        if how := disagreement(answer):
            wrong.append((how, values, answer))

    compare()
    print(f"{trainer}: {asked}, {len(wrong)} disagreements")
    for how, values, answer in wrong:
        print(f"  {how}: {values}\n    {answer}")
    assert not wrong
    assert min(asked.values()) > 0
