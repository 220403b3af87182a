"""The real trainers on small data: run as a program, it prints for each (trainer, table) "ok" or the error, as JSON.

Gets `{"cases": [[trainer, rows]], "model": path}` on standard input. One process for all, as importing takes seconds.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
import warnings
from typing import Any


def main() -> None:
    request = json.load(sys.stdin)
    os.environ.update(HF_HUB_OFFLINE="1", TQDM_DISABLE="1")
    warnings.simplefilter("ignore")
    for trainer, rows in request["cases"]:
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            try:
                train(trainer, rows, request["model"], folder)
                result = "ok"
            except Exception as error:  # noqa: BLE001 - whatever a trainer raises is the answer
                result = f"{type(error).__name__}: {error}"
        print(json.dumps(result), flush=True)


def train(trainer: str, rows: list[dict[str, Any]], model: str, folder: str) -> None:
    """Make one step of a trainer; raises what it raises."""
    import trl
    from datasets import Dataset

    names = {"sft": "SFT", "dpo": "DPO", "kto": "KTO", "grpo": "GRPO", "rloo": "RLOO"}
    name = names.get(trainer, trainer.capitalize())
    options: dict[str, Any] = {
        "output_dir": folder, "use_cpu": True, "bf16": False, "max_steps": 1, "per_device_train_batch_size": 2,
        "report_to": "none", "save_strategy": "no", "logging_strategy": "no", "gradient_checkpointing": False,
        "disable_tqdm": True,
    }  # fmt: skip
    more: dict[str, Any] = {}
    if trainer in ("grpo", "rloo"):
        options |= {"num_generations": 2, "max_completion_length": 4}
        more["reward_funcs"] = lambda completions, **_: [float(len(str(it))) for it in completions]
    elif trainer == "distillation":
        options["max_completion_length"] = 4
        more["teacher_model"] = model
    else:
        options["max_length"] = 64
    arguments = getattr(trl, f"{name}Config")(**options)
    dataset = Dataset.from_list(rows)
    getattr(trl, f"{name}Trainer")(model=model, args=arguments, train_dataset=dataset, **more).train()


if __name__ == "__main__":
    main()
