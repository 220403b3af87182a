"""Plans against the real trainers: run as a program, `python -m tests.advice.oracle TRAINER`.

Gets a plan's values on each line of standard input, as JSON, and prints a JSON line for it: what TRL's own parser, the
trainer's constructor and one step on the demo's model said (`real`, null where the step was made), and what a check
said: the ids of its blocks and warnings. The rules get what a check would have asked the installed packages.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import yaml

from kerneltui import demo
from kerneltui.advice.rules import judge
from kerneltui.advice.situation import Situation
from kerneltui.facts.attention import resolve_attention
from kerneltui.facts.model import ModelFacts
from kerneltui.facts.server import Libraries, Package, Server, Torch
from kerneltui.plan.construction import read_construction
from kerneltui.plan.plan import Plan
from kerneltui.plan.settings import Settings
from kerneltui.records import from_builtins
from kerneltui.worker import construction, library_tables, transformers_adapter, trl_adapter
from kerneltui.worker.prepared import good_rows, quiet
from kerneltui.worker.probe import read_packages

_FIXED: dict[str, Any] = {
    "use_cpu": True, "max_steps": 1, "save_strategy": "no", "logging_strategy": "no", "disable_tqdm": True,
    "dataloader_pin_memory": False,
}  # fmt: skip
_SHORT = {"max_completion_length": 4}
# What keeps one step short; plans may override it.
_START: dict[str, dict[str, Any]] = {
    "grpo": {"num_generations": 2, "per_device_train_batch_size": 2, "reward_funcs": ["think_format_reward"], **_SHORT},
    "rloo": {"num_generations": 2, "per_device_train_batch_size": 2, "reward_funcs": ["think_format_reward"], **_SHORT},
    "distillation": {"teacher_model_name_or_path": str(demo.model_path()), "per_device_train_batch_size": 2, **_SHORT},
}


class _Here:
    """Asks in this process, which has imported the libraries already."""

    HANDLERS = {**construction.HANDLERS, **transformers_adapter.HANDLERS, **trl_adapter.HANDLERS}

    def ask(self, question: str, timeout: float = 0, on_progress: Any = None, **arguments: Any) -> Any:
        handler: Any = self.HANDLERS[question]
        return json.loads(json.dumps(handler(**arguments)))


def main() -> None:
    trainer = sys.argv[1]
    os.environ.update(HF_HUB_OFFLINE="1", TQDM_DISABLE="1", TRL_EXPERIMENTAL_SILENCE="1")
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    server = _server()
    for line in sys.stdin:
        with contextlib.redirect_stdout(io.StringIO()), tempfile.TemporaryDirectory() as folder:
            answer = compare(trainer, json.loads(line), server, Path(folder))
        print(json.dumps(answer), flush=True)


def compare(trainer: str, given: dict[str, Any], server: Server, folder: Path) -> dict[str, Any]:
    """Return what the real trainer and what a check say of a plan."""
    start = {"per_device_train_batch_size": 2, "report_to": "none", "max_length": 64}
    start = {k: v for k, v in start.items() if k != "max_length" or trainer in ("sft", "dpo", "kto", "reward")}
    written = {
        "model_name_or_path": str(demo.model_path()), "dataset_name": "given here", "output_dir": str(folder / "out"),
        **_FIXED, **start, **_START.get(trainer, {}), **given,
    }  # fmt: skip
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(written), encoding="utf-8")
    return {**_checked(trainer, written, path, server), "real": _real(trainer, path)}


def _checked(trainer: str, written: dict[str, Any], path: Path, server: Server) -> dict[str, Any]:
    """Return the ids of what a check finds, by severity, as `kerneltui.assess` puts the situation together."""
    here, plan = _Here(), Plan(trainer=trainer, cwd=str(path.parent), config=path.read_text("utf-8"))
    answer = here.ask("trl.parse", trainer=trainer, config=str(path), flags=[], cwd=str(path.parent))
    if "error" in answer:
        return {"block": ["refused"], "warn": []}
    settings = from_builtins(answer, Settings, "the settings")
    model = from_builtins(here.ask("transformers.model", path=str(demo.model_path()), cwd="/"), ModelFacts, "the model")
    assert server.libraries
    situation = Situation(
        plan=plan, settings=settings, server=server, model=model,
        teacher=model if trainer == "distillation" else None,
        attention=resolve_attention(settings.attention, server.libraries, model, kernels_usable=False),
        construction=read_construction(trainer, settings, here, demo.model_path()),  # type: ignore[arg-type]
    )  # fmt: skip
    found = judge(situation)
    return {level: sorted(it.id for it in found if it.severity == level) for level in ("block", "warn")}


def _real(trainer: str, path: Path) -> str | None:
    """Return what TRL raises on the plan, from its parser to the end of one step; None where it made one."""
    try:
        with quiet():
            _train(trainer, path)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever the libraries raise is the answer
        return f"{type(error).__name__}: {error}"[:400]
    return None


def _train(trainer: str, path: Path) -> None:
    """Do what the trainer's script does, on rows that it takes. Raises what that raises."""
    from transformers import AutoTokenizer
    from trl import get_peft_config, get_quantization_config
    from trl.rewards import think_format_reward

    from kerneltui.worker.prepared import classes

    parser = trl_adapter.make_parser(trainer)
    script, arguments, model, *_ = parser.parse_args_and_config(["--config", str(path)], fail_with_unknown_args=True)
    trainer_class, _ = classes(trainer)
    tokenizer = AutoTokenizer.from_pretrained(str(demo.model_path()))
    own = {"attn_implementation": model.attn_implementation, "dtype": model.dtype, "revision": model.model_revision}
    arguments.model_init_kwargs = {**own, **(arguments.model_init_kwargs or {})}
    given: dict[str, Any] = {
        "model": model.model_name_or_path, "args": arguments, "train_dataset": good_rows(trainer, {}, tokenizer),
        "peft_config": get_peft_config(model),
    }  # fmt: skip
    if quantization := get_quantization_config(model):
        given["quantization_config"] = quantization
    if trainer in ("grpo", "rloo"):
        given["reward_funcs"] = [think_format_reward] * len(script.reward_funcs or [])
    if trainer == "distillation":
        given["teacher_model"] = arguments.teacher_model_name_or_path
    built = trainer_class(**given)
    built.train()
    if built.state.global_step != 1:
        raise ValueError("it made no step")


def _server() -> Server:
    """Return this machine as a check sees it, without a GPU."""
    import torch

    return Server(
        time="2026-12-01T09:00:00.000+00:00", hostname="here", system="Linux", machine="x86_64",
        interpreter=sys.executable, torch=Torch(version=torch.__version__), gpus=(),
        packages={name: Package(version=it["version"]) for name, it in read_packages().items()},
        libraries=from_builtins(library_tables.read_tables(), Libraries, "the tables"),
    )  # fmt: skip


if __name__ == "__main__":
    main()
