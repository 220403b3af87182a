"""How long all rules together take for the largest plan: `python -m tests.benchmarks.all_rules`.

The plan names many options and eight keys that TRL does not know, a kernel with alternatives, and a server of eight
cards. The median of 200 judgements is printed in milliseconds of this process, which other programs do not lengthen.
"""

from __future__ import annotations

import statistics
import time

from kerneltui.advice.rules import judge
from kerneltui.advice.situation import Situation
from kerneltui.plan.construction import Construction
from tests.advice.situations import COMMUNITY, GQA, H200, make_build, make_server, make_situation

ROUNDS = 200


def largest() -> Situation:
    """Return the situation of a plan that many rules have something to say of."""
    variants = {
        f"torch{torch}-cxx11-cu{cuda}-x86_64-linux": f"Torch version ({torch}) does not match"
        for torch in range(25, 30)
        for cuda in (118, 126, 128, 130)
    }
    given = {
        "attn_implementation": f"{COMMUNITY}/flash-attn2@v3", "padding_free": True, "use_liger_kernel": True,
        "liger_kernel_config": {"fused_linear_cross_entropy": True}, "use_peft": True, "load_in_4bit": True,
        "lora_target_modules": ["q_proj", "lm_head"], "optim": "adamw_8bit", "loss_type": "dft", "max_seq_length": 9,
        "label_smoothing_factor": 0.1, "torch_dtype": "bfloat16", "report_to": "wandb", "dtype": "bf16",
        **{f"unknown_{number}": number for number in range(6)},
    }  # fmt: skip
    unknown = tuple(name for name in given if name.startswith("unknown") or name in ("max_seq_length", "torch_dtype"))
    others = tuple(make_build(f"v{number}", refused=variants) for number in range(8))
    return make_situation(
        server=make_server(*[H200] * 8), model=GQA, given=given, unknown_keys=unknown, processes=8,
        build=make_build("v3", None, refused=variants), alternatives=others,
        construction=Construction(missing=("wandb",), said=("`loss_type` is deprecated.",)),
    )  # fmt: skip


def main() -> None:
    situation = largest()
    took = []
    for _ in range(ROUNDS):
        start = time.process_time()
        found = judge(situation)
        took.append((time.process_time() - start) * 1000)
    median, worst = statistics.median(took), statistics.quantiles(took, n=20)[-1]
    print(f"{len(found)} findings; median {median:.2f} ms, 95th percentile {worst:.2f} ms of {ROUNDS} judgements")


if __name__ == "__main__":
    main()
