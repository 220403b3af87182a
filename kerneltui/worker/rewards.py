"""Reward functions: those of TRL, what they want of the data, and what they give to a few completions."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import math
import os
import sys
from typing import Any

from .apart import NoAnswerError, run_apart

# What the trainers hand to a reward function beside the columns (`GRPOTrainer._calculate_rewards`, TRL 1.16.0).
_GIVEN = ("prompts", "completions", "completion_ids", "trainer_state", "log_extra", "log_metric", "environments")
_INPUTS = ("prompt", "completion", "completion_ids")
# The one that `trl.scripts.grpo` makes with arguments.
_PUNISHMENT = {"max_completion_len": 1280, "soft_punish_cache": 256}
# Columns that hold what is right, so that completions can be made of it.
_RIGHT = ("solution", "answer", "ground_truth", "target", "label", "completion")
_ROWS = 3
_SECONDS = 20.0


def trl_functions() -> list[str]:
    """Return the names of TRL's reward functions that its `trl` command takes: no other makes others."""
    from trl import rewards

    names = [name for name in dir(rewards) if callable(getattr(rewards, name, None)) and name.endswith("_reward")]
    return [*(name for name in names if not name.startswith("get_")), "get_soft_overlong_punishment"]


def missing_columns(names: Any, columns: list[str]) -> dict[str, list[str]]:
    """Return for each of TRL's reward functions in `names` the columns that it wants and the data lacks."""
    from trl import rewards

    found: dict[str, list[str]] = {}
    for name in names if isinstance(names, list) else []:
        function = getattr(rewards, str(name), None)
        if inspect.isfunction(function) and not name.startswith("get_"):  # those are made with arguments of their own
            wanted = inspect.signature(function).parameters.values()
            missing = [it.name for it in wanted if it.default is it.empty and it.kind is it.POSITIONAL_OR_KEYWORD]
            missing = [wish for wish in missing if wish not in (*_GIVEN, *columns)]
            found |= {name: missing} if missing else {}
    return found


def find_function(name: str) -> Any:
    """Return a reward function by its name or dotted path, as `trl.scripts.grpo` finds it."""
    module, dot, function = name.rpartition(".")
    if dot and os.getcwd() not in sys.path:  # noqa: PTH109 - the text that goes on the path
        sys.path.insert(0, os.getcwd())  # noqa: PTH109
    if not dot and name not in trl_functions():
        raise ValueError(f"TRL has {', '.join(trl_functions())}; another is named as package.module.function")
    found = getattr(importlib.import_module(module if dot else "trl.rewards"), function)
    return found(**_PUNISHMENT) if not dot and name == "get_soft_overlong_punishment" else found


def try_functions(names: Any, table: Any, cwd: str) -> list[dict[str, Any]]:
    """Return for each reward function what it gives to completions made from the first rows of the data.

    See `kerneltui.facts.rewards.RewardTrial`. A function of the person's own is run in a process of its own, where it
    may fail, hang or print.
    """
    rows = [dict(row) for row in table.select(range(min(_ROWS, len(table))))]
    names = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
    return [_try(name, rows, cwd) for name in names] if rows and "prompt" in rows[0] else []


def _try(name: str, rows: list[dict[str, Any]], cwd: str) -> dict[str, Any]:
    from transformers import TrainerState  # here, so that the copies have it

    state = TrainerState()

    def work() -> Any:
        os.chdir(cwd)
        try:
            function = find_function(name)
        except BaseException as error:  # noqa: BLE001 - whatever the person's module raises is what they must know
            return {"error": _text(error)}
        return {"tries": [_score(function, kind, rows, state) for kind in _KINDS]}

    try:
        return {"name": name, **run_apart(work, _SECONDS)}
    except NoAnswerError as error:
        return {"name": name, "no_answer": str(error)}


def _score(function: Any, kind: str, rows: list[dict[str, Any]], state: Any) -> dict[str, Any]:
    texts = [_KINDS[kind](_right(row)) for row in rows]
    tried = {"kind": kind, "completions": texts}
    try:
        return {**tried, "scores": [_number(score) for score in _call(function, rows, texts, state)]}
    except BaseException as error:  # noqa: BLE001 - as above
        return {**tried, "error": _text(error), "place": _place(error)}


def _call(function: Any, rows: list[dict[str, Any]], texts: list[str], state: Any) -> list[Any]:
    """Call a function as the trainers do. Raises what it raises, and ValueError for what they refuse of its answer."""
    talk = isinstance(rows[0]["prompt"], list)
    columns = {key: [row[key] for row in rows] for key in rows[0] if key not in _INPUTS}
    found = function(
        prompts=[row["prompt"] for row in rows],
        completions=[[{"role": "assistant", "content": text}] if talk else text for text in texts],
        completion_ids=[list(text.encode()) for text in texts],
        **columns,
        trainer_state=state,
        log_extra=lambda *_: None,
        log_metric=lambda *_: None,
    )
    found = list(asyncio.run(found) if inspect.iscoroutine(found) else found)
    if len(found) != len(rows):
        raise ValueError(f"it returns {len(found)} rewards for {len(rows)} completions")
    return found


def _number(score: Any) -> float | None:
    """Return a score as a number; None stands for no score, as NaN does. Raises TypeError for what is none."""
    number = float("nan") if score is None else float(score)
    return number if math.isfinite(number) else None


def _right(row: dict[str, Any]) -> str:
    found = next((row[name] for name in _RIGHT if isinstance(row.get(name), (str, int, float))), None)
    return "Yes." if found is None else str(found)


_KINDS = {
    "what is right": lambda right: right,
    "thought, then boxed": lambda right: f"<think>\nI think about it.\n</think>\n\\boxed{{{right}}}",
    "nothing": lambda _: "",
}


def _text(error: BaseException) -> str:
    message = " ".join(str(error).split())
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def _place(error: BaseException) -> str | None:
    """Return the file and line of the innermost code that is no package of the interpreter."""
    place, trace = None, error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file != __file__ and "site-packages" not in file and not file.startswith((sys.base_prefix, "<")):
            place = f"{file}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place
