"""One step of the real trainers on small data, and what they raise."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
import warnings
from typing import Any

from kerneltui import demo
from kerneltui.worker import experimental

_COMMON: dict[str, Any] = {
    "use_cpu": True, "bf16": False, "max_steps": 1, "report_to": "none", "save_strategy": "no",
    "logging_strategy": "no", "gradient_checkpointing": False, "disable_tqdm": True,
}  # fmt: skip
_SHORT = {"max_completion_length": 4}
_OWN: dict[str, dict[str, Any]] = {
    "grpo": {"num_generations": 2, **_SHORT}, "rloo": {"num_generations": 2, **_SHORT}, "distillation": _SHORT,
    "online_dpo": {"max_new_tokens": 4}, "sdft": {"num_generations": 2, **_SHORT},
    "gkd": {"max_new_tokens": 4, "max_length": 64},
}  # fmt: skip


def main() -> None:
    """Read `{"cases": [[trainer, rows]]}` from standard input and print for each "ok" or the error, as JSON."""
    request = json.load(sys.stdin)
    os.environ.update(HF_HUB_OFFLINE="1", TQDM_DISABLE="1")
    warnings.simplefilter("ignore")
    from datasets import Dataset

    for trainer, rows in request["cases"]:
        with contextlib.redirect_stdout(io.StringIO()):
            said = _said(trainer, lambda rows=rows: Dataset.from_list(rows), {})
        print(json.dumps(said or "ok"), flush=True)


def train_file(trainer: str, source: dict[str, Any], options: dict[str, Any]) -> str | None:
    """Return what a trainer raises on a file, read as TRL's scripts read it; None where it makes a step."""

    def read() -> Any:
        from trl import DatasetMixtureConfig, get_dataset

        return get_dataset(DatasetMixtureConfig(datasets=[source]))["train"]

    return _said(trainer, read, options)


def _said(trainer: str, read: Any, options: dict[str, Any]) -> str | None:
    with tempfile.TemporaryDirectory() as folder:
        try:
            train(trainer, read(), folder, options)
        except Exception as error:  # noqa: BLE001 - whatever a trainer raises is the answer
            return f"{type(error).__name__}: {error}"
    return None


def train(trainer: str, dataset: Any, folder: str, options: dict[str, Any]) -> None:
    """Make one step of a trainer on all rows; raises what it raises."""
    trainer_class, config_class = _classes(trainer)
    own = _OWN.get(trainer, {"max_length": 64})
    batch = {"per_device_train_batch_size": own.get("num_generations", 1) * len(dataset)}
    takes, model = experimental.parameters(trainer_class), str(demo.model_path())
    more: dict[str, Any] = {}
    if "reward_funcs" in takes:
        more["reward_funcs"] = lambda completions, **_: [float(len(str(it))) for it in completions]
    if "teacher_model" in takes:
        more["teacher_model"] = model
    if trainer in ("gkd", "online_dpo", "orpo", "cpo"):
        from transformers import AutoTokenizer

        more["processing_class"] = AutoTokenizer.from_pretrained(model)
    arguments = config_class(output_dir=folder, **{**_COMMON, **batch, **own, **options})
    built = trainer_class(model=model, args=arguments, train_dataset=dataset, **more)
    built.train()
    if built.state.global_step != 1:
        raise ValueError("it made no step")


def _classes(trainer: str) -> tuple[Any, Any]:
    if experimental.is_experimental(trainer):
        return experimental.classes(trainer)
    import trl

    name = trainer.capitalize() if trainer in ("reward", "distillation") else trainer.upper()
    return getattr(trl, f"{name}Trainer"), getattr(trl, f"{name}Config")


if __name__ == "__main__":
    main()
