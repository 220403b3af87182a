"""One step at full shape: the installed TRL script on random weights and rows of full length, and the memory it took.

`run.py measure OUT TRAINER [ARGUMENT …]`: the arguments are the script's, and `OUT` is the JSON file to write. Nothing
is downloaded but the model's configuration and its tokenizer; the weights are made on the device. The measured steps
are those of a real run, with its optimizer; only what follows training (saving, evaluating, reporting) is left out.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from .full_rows import FullRows
from .random_weights import use_random_weights
from .record import describe
from .watermark import Watermark

# What a measured run does otherwise than the plan: it ends after two steps (the optimizer's state exists from the
# first on, so that the second step has the highest peak), and writes nothing.
_STEPS = 2
_INSTEAD = {
    "max_steps": _STEPS,
    "eval_strategy": "no",
    "save_strategy": "no",
    "report_to": "none",
    "logging_strategy": "no",
    "push_to_hub": False,
    "resume_from_checkpoint": None,
}


def main() -> None:
    """Run the script of a trainer for two steps and write what was measured, or what it raised; exit 1 then."""
    out, trainer, *arguments = sys.argv[1:]
    watermark = Watermark()
    try:
        _measure(trainer, arguments, watermark)
    except watermark.Enough:
        _write(Path(out), watermark.report())
    except BaseException as error:
        _write(Path(out), {**watermark.report(), "error": describe(error)})
        raise SystemExit(1) from error
    else:
        _write(Path(out), {**watermark.report(), "error": {"type": "", "message": "training did not begin"}})
        raise SystemExit(1)


def _measure(trainer: str, arguments: list[str], watermark: Watermark) -> None:
    script = importlib.import_module(f"trl.scripts.{trainer}")
    instead = [word for name, value in _INSTEAD.items() if value is not None for word in (f"--{name}", str(value))]
    sys.argv = [str(script.__file__), *arguments, *instead]
    parsed = script.make_parser().parse_args_and_config(fail_with_unknown_args=False)
    script_args, training_args, model_args, dataset_args = parsed[:4]
    training_args.resume_from_checkpoint = None
    if hasattr(script_args, "reward_funcs"):
        script_args.reward_funcs = [f"{__package__}.full_rows.reward"]
    if hasattr(training_args, "max_completion_length"):
        wished = {"min_new_tokens": training_args.max_completion_length}
        training_args.generation_kwargs = {**(training_args.generation_kwargs or {}), **wished}
    use_random_weights()
    rows = FullRows(trainer, training_args, model_args, int(os.environ.get("KERNELTUI_PROMPT_TOKENS", "512")))
    rows.serve()
    watermark.install()
    script.main(script_args, training_args, model_args, dataset_args)


def _write(out: Path, report: dict[str, Any]) -> None:
    out.write_text(json.dumps(report, default=str), encoding="utf-8")
