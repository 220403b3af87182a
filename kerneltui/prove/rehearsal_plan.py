"""What a rehearsal changes of a plan: names of things, how long, and where to; the rest is the plan's own."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from kerneltui.advice.situation import Situation
from kerneltui.plan.edit import edit_config
from kerneltui.records import Record

STEPS = 2
"""Optimizer steps: the second one computes with what the first has made of the weights."""

# Tokens that a trainer may generate of each answer, passes whose gradients it adds up, and rows that it gets.
_ANSWER, _PASSES, _ROWS = 64, 2, 512
# Rows that are evaluated; tokens of a row where they are not known.
_EVALUATED = 8
_ROW_TOKENS = 200
_MODEL = re.compile(r"(^|_)model_name_or_path$")
# Fields that may name modules or weights of one layer by its number ("7.mlp.experts.gate_up_proj").
_NUMBERED = ("lora_target_modules", "lora_target_parameters", "lora_modules_to_save")
_NUMBER = re.compile(r"(^|\.)(\d+)(?=\.)")
# Fields that say how many tokens are generated, and those that only a trainer that generates has.
_ANSWERS = ("max_completion_length", "max_new_tokens")
# What must not be done twice, or not for a rehearsal: resume, publish, track, save.
_LEFT_OUT = ("resume_from_checkpoint", "log_completions_hub_repo")
_FIXED: dict[str, Any] = {
    "push_to_hub": False, "report_to": "none", "save_strategy": "no", "load_best_model_at_end": False,
    "logging_strategy": "steps", "logging_steps": 1, "logging_nan_inf_filter": False, "dataloader_drop_last": False,
}  # fmt: skip


class Named(Record):
    """A model that a plan names: the field, its path or Hub name, and the revision that will be asked for."""

    field: str
    path: str
    revision: str | None = None


class Source(Record):
    """A data set that a plan names, as an entry of TRL's `datasets`; the file for its first rows, and how many."""

    entry: dict[str, Any]
    file: str
    rows: int


class Staged(NamedTuple):
    """What was made for a rehearsal: the small model of each field that names one, and where the first rows are.

    `rows` is None where the data is left as the plan names it.
    """

    models: dict[str, str]
    rows: Path | None
    sources: list[Source]


def models_of(situation: Situation) -> list[Named]:
    """Return the models that the plan names, each with the revision that TRL's script loads it by.

    A reward model is loaded by the revision of the model that is trained (TRL 1.16.0, GRPOTrainer.__init__).
    """
    settings = situation.settings
    own = settings.model_kwargs.get("revision", settings.get("model_revision"))
    return [
        Named(field=name, path=value, revision=_revision(settings.get("teacher_model_revision"), own, name))
        for name, value in settings.values.items()
        if _MODEL.search(name) and isinstance(value, str) and value
    ]


def _revision(teachers: Any, own: Any, name: str) -> str | None:
    found = teachers if name.startswith("teacher") else own
    return found if isinstance(found, str) and found != "main" else None


def sources_of(situation: Situation) -> list[Source]:
    """Return the data sets that the plan names; of a `dataset_name` the splits that the run reads."""
    get, rows = situation.settings.get, rows_of(situation)
    if entries := [entry for entry in get("datasets") or [] if isinstance(entry, dict) and entry.get("path")]:
        return [Source(entry=entry, file=f"part-{number}.parquet", rows=rows) for number, entry in enumerate(entries)]
    name = get("dataset_name")
    if not isinstance(name, str) or not name:
        return []
    splits = {str(get("dataset_train_split") or "train"): rows}
    if evaluates(situation):
        splits.setdefault(str(get("dataset_test_split")), _EVALUATED)
    return [
        # `datasets` knows a split by the name of its file.
        Source(
            entry={"path": name, "name": get("dataset_config"), "split": split},
            file=f"data/{split}-00000-of-00001.parquet",
            rows=count,
        )
        for split, count in splits.items()
    ]


def evaluates(situation: Situation) -> bool:
    """Whether the plan evaluates while it trains."""
    return str(situation.settings.get("eval_strategy") or "no") not in ("no", "IntervalStrategy.NO")


def generates(situation: Situation) -> bool:
    """Whether the trainer makes answers by itself."""
    return any(name in situation.settings.values for name in _ANSWERS)


def steps_of(situation: Situation) -> int:
    """Return how many optimizer steps are rehearsed; a trainer that generates takes long for each."""
    return 1 if generates(situation) else STEPS


def processes_of(situation: Situation) -> int:
    """Return how many processes are rehearsed: two stand for all."""
    return min(2, max(1, situation.processes))


def rows_of(situation: Situation) -> int:
    """Return how many rows the steps need, at most as many as can be read and prepared in a moment."""
    get = situation.settings.get
    batch = _whole(get("per_device_train_batch_size"), 8) * processes_of(situation)
    batch *= _whole(changes_of(situation).get("gradient_accumulation_steps", get("gradient_accumulation_steps")), 1)
    needed = batch * steps_of(situation)
    if get("packing"):
        known = situation.data.tokens if situation.data and situation.data.tokens else ()
        each = sum(known) / len(known) if known else _ROW_TOKENS
        needed = math.ceil(needed * _whole(get("max_length"), 1024) / max(1.0, each))
    return min(_ROWS, max(8, needed))


def changes_of(situation: Situation) -> dict[str, Any]:
    """Return the fields that a rehearsal sets to another value than the plan, without models, data and directory."""
    values = situation.settings.values
    steps = steps_of(situation)
    wanted = {**_FIXED, "max_steps": steps}
    if evaluates(situation):
        wanted |= {"eval_strategy": "steps", "eval_steps": steps}
    if not generates(situation):
        wanted["gradient_accumulation_steps"] = min(_PASSES, _whole(values.get("gradient_accumulation_steps"), 1))
    for name in _ANSWERS:
        if isinstance(value := values.get(name), int):
            wanted[name] = min(_ANSWER, value)
    if values.get("vllm_mode", "colocate") == "server" and values.get("use_vllm"):
        wanted["use_vllm"] = False  # its server has the whole model
    return {name: value for name, value in wanted.items() if name in values and values[name] != value}


def renumbered(situation: Situation, layers: int) -> dict[str, list[str]]:
    """Return the fields that name layers by numbers which a model of so many layers has not, with numbers that it has.

    The first number in a name is that of the layer; a later one counts experts.
    """
    found: dict[str, list[str]] = {}
    for name in _NUMBERED:
        old = situation.settings.get(name)
        if isinstance(old, list) and all(isinstance(it, str) for it in old):
            new = [_NUMBER.sub(lambda it: f"{it[1]}{int(it[2]) % layers}", entry, count=1) for entry in old]
            found |= {name: list(dict.fromkeys(new))} if new != old else {}
    return found


def untried(situation: Situation) -> list[str]:
    """Return what of the plan a rehearsal leaves out, in words."""
    get, found = situation.settings.get, []
    if get("use_vllm") and "use_vllm" in changes_of(situation):
        found.append("the vLLM server: answers are generated by transformers instead")
    if get("report_to") not in (None, "none", ["none"], []):
        found.append("the trackers (report_to)")
    found += [name for name in _LEFT_OUT if get(name)]
    if situation.settings.machines > 1:
        found.append(f"the other {situation.settings.machines - 1} machines")
    if situation.processes > processes_of(situation):
        found.append(f"{situation.processes - processes_of(situation)} of {situation.processes} processes")
    return found


def rehearsed_config(situation: Situation, staged: Staged) -> str:
    """Return the plan's configuration with what was made for it, and without what a rehearsal leaves out."""
    values: dict[str, Any] = dict(staged.models)
    remove = list(_LEFT_OUT)
    if staged.rows is not None and situation.settings.get("datasets"):
        values["datasets"] = [_small_entry(source, staged.rows) for source in staged.sources]
    elif staged.rows is not None:
        values["dataset_name"] = str(staged.rows)
        remove.append("dataset_config")
    return edit_config(situation.plan.config or "", values, remove)


def _small_entry(source: Source, rows: Path) -> dict[str, Any]:
    kept = {name: source.entry[name] for name in ("columns",) if source.entry.get(name)}
    return {"path": "parquet", "data_files": str(rows / source.file), "split": "train", **kept}


def rehearsed_flags(situation: Situation, staged: Staged, output: Path, changes: dict[str, Any]) -> tuple[str, ...]:
    """Return the flags that go after the plan's own: of two that set the same the later counts."""
    made = {**staged.models, **({"dataset_name": str(staged.rows)} if staged.rows is not None else {})}
    named = {name: path for name, path in made.items() if _is_flagged(situation, name)}
    wanted = {**named, "output_dir": str(output), **changes}
    return tuple(word for name, value in wanted.items() for word in (f"--{name}", *_words(value)))


def _words(value: Any) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else (str(value),)


def kept_flags(situation: Situation) -> tuple[str, ...]:
    """Return the plan's flags for TRL's script, without those of what a rehearsal leaves out."""
    gone = {*_LEFT_OUT, *(("dataset_config",) if not situation.settings.get("datasets") else ())}
    return tuple(_without(situation.settings.script_flags, gone, situation.settings.values))


def _without(words: Iterable[str], gone: set[str], known: Iterable[str]) -> Iterator[str]:
    """Give a command line without some flags and their values; argparse also takes the beginning of a name."""
    names, keep = set(known), True
    for word in words:
        if word.startswith("--"):
            name = word.removeprefix("--").partition("=")[0].replace("-", "_")
            keep = name not in gone and (name in names or not any(it.startswith(name) for it in gone))
        if keep:
            yield word


def _is_flagged(situation: Situation, name: str) -> bool:
    """Whether a field stands among the plan's flags, which count more than its file."""
    words = [word.removeprefix("--").partition("=")[0].replace("-", "_") for word in situation.plan.flags]
    return any(word and name.startswith(word) for word in words)


def _whole(value: Any, otherwise: int) -> int:
    return value if isinstance(value, int) and value > 0 else otherwise
