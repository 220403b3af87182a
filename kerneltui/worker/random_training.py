"""The installed TRL script with random weights and rows of full length: nothing is downloaded but a configuration."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

from .full_rows import FullRows
from .random_weights import use_random_weights

# What such a run does otherwise than the plan: it leaves nothing behind.
_INSTEAD = {
    "eval_strategy": "no",
    "save_strategy": "no",
    "report_to": "none",
    "logging_strategy": "no",
    "push_to_hub": False,
}


def train(
    trainer: str,
    arguments: list[str],
    instead: dict[str, Any],
    install: Callable[[], None],
    *,
    prompt_tokens: int = 512,
    layers: int | None = None,
) -> None:
    """Run the script of `trainer` with `arguments`, and with the values of `instead` in place of the plan's.

    `install` is called when the plan has been read and nothing is loaded yet. `prompt_tokens` is the length of the
    prompts of a trainer that generates; `layers` leaves a model only its first ones. Raises what training raises.
    """
    script = importlib.import_module(f"trl.scripts.{trainer}")
    words = [word for name, value in {**_INSTEAD, **instead}.items() for word in (f"--{name}", str(value))]
    sys.argv = [str(script.__file__), *arguments, *words]
    parsed = script.make_parser().parse_args_and_config(fail_with_unknown_args=False)
    script_args, training_args, model_args, dataset_args = parsed[:4]
    training_args.resume_from_checkpoint = None
    if hasattr(script_args, "reward_funcs"):
        script_args.reward_funcs = [f"{__package__}.full_rows.reward"]
    if hasattr(training_args, "max_completion_length"):
        wished = {"min_new_tokens": training_args.max_completion_length}
        training_args.generation_kwargs = {**(training_args.generation_kwargs or {}), **wished}
    use_random_weights(layers)
    FullRows(trainer, training_args, model_args, prompt_tokens).serve()
    install()
    script.main(script_args, training_args, model_args, dataset_args)
