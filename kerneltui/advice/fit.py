"""Which trainers can read a data set, by its columns and by what the trainer itself said of its rows.

What each trainer does with columns and rows was read in TRL 1.16.0 and tried with the real trainers
(`tests/advice/real_trainers.py`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence

from kerneltui.facts.dataset import DatasetFacts
from kerneltui.facts.prepared import Refusal
from kerneltui.records import Record

_TEXT, _MESSAGES = "text", "messages"


class Fit(Record):
    """Whether a trainer can read the data, None where that is not known, and why."""

    ok: bool | None
    reason: str


class _MisfitError(Exception):
    """What the data lacks."""


Types = Mapping[str, str]


def fits(dataset: DatasetFacts | None, trainer: str, *, text_field: str = "text") -> Fit:
    """Return whether `trainer` can read the data set; `text_field` is SFT's column of plain text.

    What the trainer itself said of the rows, where it was asked, counts more than what is known of its columns.
    """
    if dataset is None:
        return Fit(ok=None, reason="the data was not read")
    known = known_fit(dataset, trainer, text_field)
    if dataset.trainer != trainer:
        return known
    if dataset.refused and dataset.refused.row and known.ok is not False:
        place = _place(dataset.refused, columns_read(dataset, trainer, text_field))
        return Fit(ok=False, reason=f"{place}: {dataset.refused.error}")
    if dataset.prepared and dataset.prepared.constructed and not known.ok:
        return Fit(ok=True, reason=f"{trainer} takes these rows")
    return known


def _place(refused: Refusal, columns: list[str]) -> str:
    """Return where the trainer failed: in the column that it named, else in those that it reads."""
    columns = [refused.column] if refused.column else columns
    words = f", column{'s' if len(columns) > 1 else ''} {', '.join(columns)}" if columns else ""
    return f"row {refused.row}{words}"


def columns_read(dataset: DatasetFacts, trainer: str, text_field: str = "text") -> list[str]:
    """Return the columns that a trainer reads of this data, none where that is not known."""
    read = _READERS.get(trainer)
    with contextlib.suppress(_MisfitError):
        return read(dataset.types, text_field)[0] if read else []
    return []


def known_fit(dataset: DatasetFacts, trainer: str, text_field: str = "text") -> Fit:
    """Return whether `trainer` can read the data set by what is known of its columns, whatever the trainer said."""
    types, read = dataset.types, _READERS.get(trainer)
    if read is None:
        return Fit(ok=None, reason=f"what {trainer} reads is not known here")
    if "image" in types or "images" in types:
        return Fit(ok=None, reason="data with pictures is not judged here")
    try:
        columns, reason = read(types, text_field)
        _same_in_every_row(dataset, columns)
    except _MisfitError as misfit:
        return Fit(ok=False, reason=str(misfit))
    return Fit(ok=True, reason=reason)


def fitting_trainers(dataset: DatasetFacts | None, trainers: Sequence[str]) -> dict[str, Fit]:
    """Return the fit of each trainer, those first that can read the data."""
    found = {trainer: fits(dataset, trainer) for trainer in trainers}
    return dict(sorted(found.items(), key=lambda item: (True, None, False).index(item[1].ok)))


def _sft(types: Types, text_field: str) -> tuple[list[str], str]:
    if "input_ids" in types:
        return ["input_ids"], "it is tokenized already"
    if "prompt" in types:  # comes first in TRL, whatever else there is
        if "completion" not in types:
            raise _MisfitError(f"where there is a prompt, sft wants a completion too{_there(types)}")
        _alike(types, "prompt", "completion")
        return ["prompt", "completion"], "prompts with their completions"
    if types.get("conversations") == "from/value messages":
        return ["conversations"], "conversations, which TRL turns into messages"
    if types.get("messages") == _MESSAGES:
        return ["messages"], "conversations"
    if types.get(text_field) == _TEXT:
        return [text_field], f"plain text in the column {text_field}"
    raise _MisfitError(f"sft reads messages, {text_field}, or prompt and completion{_there(types)}")


def _preference(types: Types, _: str) -> tuple[list[str], str]:
    if not {"chosen", "rejected"} <= set(types):
        raise _MisfitError(f"it wants a chosen and a rejected answer{_there(types)}")
    columns = [name for name in ("prompt", "chosen", "rejected") if name in types]
    _alike(types, *columns)
    return columns, "chosen and rejected answers" + ("" if "prompt" in types else " with the prompt inside")


def _reward(types: Types, text_field: str) -> tuple[list[str], str]:
    if {"chosen_ids", "rejected_ids"} <= set(types):
        return ["chosen_ids", "rejected_ids"], "it is tokenized already"
    return _preference(types, text_field)


def _kto(types: Types, text_field: str) -> tuple[list[str], str]:
    if {"chosen", "rejected"} <= set(types):
        columns, _ = _preference(types, text_field)
        return columns, "pairs, which TRL takes apart"
    if not {"prompt", "completion", "label"} <= set(types):
        raise _MisfitError(f"kto wants prompt, completion and label, or chosen and rejected{_there(types)}")
    _alike(types, "prompt", "completion")
    if types["label"] not in ("bool", "int"):
        raise _MisfitError(f"label is true or false for kto, and here it is {types['label']}")
    return ["prompt", "completion", "label"], "completions that are labelled good or bad"


def _prompts(types: Types, _: str) -> tuple[list[str], str]:
    if "prompt" not in types:
        raise _MisfitError(f"it wants a prompt, and generates the rest{_there(types)}")
    _alike(types, "prompt")
    return ["prompt"], "prompts; completions are generated"


def _scored(types: Types, text_field: str) -> tuple[list[str], str]:
    """GRPO and RLOO hand every other column to the reward functions, by its name."""
    found = _prompts(types, text_field)
    taken = [name for name in ("completions", "prompts") if name in types]
    if taken:
        raise _MisfitError(f"a column {taken[0]} collides with what reward functions are given under that name")
    return found


def _triple(types: Types, text_field: str) -> tuple[list[str], str]:
    columns, reason = _preference(types, text_field)
    if "reference" not in types:
        raise _MisfitError(f"tpo wants a reference answer too{_there(types)}")
    _alike(types, *columns, "reference")
    return [*columns, "reference"], f"{reason}, and a reference"


def _answered(types: Types, _: str) -> tuple[list[str], str]:
    if types.get("messages") != _MESSAGES:
        raise _MisfitError(f"it wants messages whose last one is the answer{_there(types)}")
    return ["messages"], "conversations"


def _shown(types: Types, text_field: str) -> tuple[list[str], str]:
    columns, _ = _prompts(types, text_field)
    if "privileged_context" not in types:
        raise _MisfitError(f"sdft wants a privileged_context, what only the teacher sees{_there(types)}")
    return [*columns, "privileged_context"], "prompts, and what only the teacher sees"


def _alike(types: Types, *columns: str) -> None:
    """Raise _MisfitError unless all columns are text, or all are messages."""
    for column in columns:
        if types[column] not in (_TEXT, _MESSAGES):
            raise _MisfitError(f"{column} is neither text nor messages: {types[column]}")
        if types[column] != types[columns[0]]:
            raise _MisfitError(
                f"{columns[0]} is {types[columns[0]]}, and {column} is {types[column]}: both must be one"
            )


def _same_in_every_row(dataset: DatasetFacts, columns: list[str]) -> None:
    for column in dataset.columns:
        if column.name in columns and column.odd_row is not None:
            raise _MisfitError(
                f"row {column.odd_row} has {column.odd_type} in the column {column.name}, where row 1 has {column.type}"
            )


def _there(types: Types) -> str:
    return f"; the columns are {', '.join(types)}"


_READERS: dict[str, Callable[[Types, str], tuple[list[str], str]]] = {
    "sft": _sft,
    "dpo": _preference,
    "kto": _kto,
    "reward": _reward,
    "grpo": _scored,
    "rloo": _scored,
    "distillation": _prompts,
    "orpo": _preference,
    "cpo": _preference,
    "tpo": _triple,
    "gkd": _answered,
    "gold": _answered,
    "online_dpo": _prompts,
    "a2po": _scored,
    "gmpo": _scored,
    "sdpo": _scored,
    "sdft": _shown,
    "server_distillation": _prompts,
}

TRAINERS = ("sft", "dpo", "kto", "reward", "grpo", "rloo", "distillation")
"""The trainers of the `trl` command (TRL 1.16.0)."""
