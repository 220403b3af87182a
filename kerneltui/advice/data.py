"""The data: which trainers can read it, and what they would fail on.

What each trainer does with columns and rows was read in TRL 1.16.0 and tried with the real trainers
(`tests/advice/real_trainers.py`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence

from kerneltui.advice.finding import Finding, Fix, Severity
from kerneltui.advice.situation import Situation
from kerneltui.facts.dataset import DatasetFacts
from kerneltui.facts.prepared import Refusal
from kerneltui.records import Record

# A model whose template TRL's documentation takes for base models (docs: sft_trainer, chat_template_path).
_TEMPLATE = "HuggingFaceTB/SmolLM3-3B"
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
    known = _known_fit(dataset, trainer, text_field)
    if dataset.trainer != trainer:
        return known
    if dataset.refused and dataset.refused.row and known.ok is not False:
        place = _place(dataset.refused, _columns(dataset, trainer, text_field))
        return Fit(ok=False, reason=f"{place}: {dataset.refused.error}")
    if dataset.prepared and dataset.prepared.constructed and not known.ok:
        return Fit(ok=True, reason=f"{trainer} takes these rows")
    return known


def _place(refused: Refusal, columns: list[str]) -> str:
    """Return where the trainer failed: in the column that it named, else in those that it reads."""
    columns = [refused.column] if refused.column else columns
    words = f", column{'s' if len(columns) > 1 else ''} {', '.join(columns)}" if columns else ""
    return f"row {refused.row}{words}"


def _columns(dataset: DatasetFacts, trainer: str, text_field: str) -> list[str]:
    """Return the columns that a trainer reads of this data, none where that is not known."""
    read = _READERS.get(trainer)
    with contextlib.suppress(_MisfitError):
        return read(dataset.types, text_field)[0] if read else []
    return []


def _known_fit(dataset: DatasetFacts, trainer: str, text_field: str) -> Fit:
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


def wrong_format(situation: Situation) -> list[Finding]:
    """A trainer reads certain columns, and fails on other data after the model was loaded."""
    data, trainer, get = situation.data, situation.plan.trainer, situation.settings.get
    kwargs = get("dataset_kwargs")
    if data is None or (isinstance(kwargs, dict) and kwargs.get("skip_prepare_dataset")):
        return []
    field = str(get("dataset_text_field") or "text")
    fit = fits(data, trainer, text_field=field)
    if fit.ok is not False:
        return []
    why = f"{fit.reason[0].upper()}{fit.reason[1:]}."
    refused = data.refused if data.trainer == trainer else None
    if refused is None or _known_fit(data, trainer, field).ok is False:
        others = [name for name in TRAINERS if fits(data, name, text_field=field).ok]
        why += f" It fits {', '.join(others)}." if others else " It fits no trainer of the trl command."
    return [
        Finding(
            id="data.format",
            severity="block",
            title=f"{trainer} cannot train on {data.name}",
            why=why,
            origin="asked" if refused else "known",
            source=situation.cite("trl", f"the data set preparation of {trainer}_trainer"),
            fixes=_text_column(data) if trainer == "sft" else (),
        )
    ]


def unread(situation: Situation) -> list[Finding]:
    """What kept a look at the data from succeeding may keep TRL from it too; another machine may have the files.

    Rows that `datasets` cannot read, and splits that are not there, stop TRL for certain.
    """
    reason = situation.unknown.get("data")
    if situation.data is not None or not reason:
        return []
    title, _, rest = reason.partition("\n")
    severity: Severity = "block" if situation.data_at_fault else "warn"
    return [
        Finding(
            id="data.unread",
            severity="note" if situation.elsewhere else severity,
            title=title,
            why="\n".join(filter(None, (rest, "Whether the trainer can read its rows was not checked."))),
            origin="asked",
            source=situation.cite_answer("datasets", "load_dataset(…, streaming=True)"),
        )
    ]


def no_chat_template(situation: Situation) -> list[Finding]:
    """Messages become text by the tokenizer's chat template, which base models often lack."""
    data, values = situation.data, situation.settings.values
    if data is None or not data.conversational or data.chat_template is not False or values.get("chat_template_path"):
        return []
    fix = Fix(label=f"Take the template of {_TEMPLATE}", changes={"chat_template_path": _TEMPLATE})
    return [
        Finding(
            id="data.chat_template",
            severity="block",
            title="The data holds messages, and the model's tokenizer has no chat template",
            why="Nothing says how messages become text. Take a chat model, give a template, or train on plain text.",
            origin="asked",
            source=situation.cite("transformers", "PreTrainedTokenizerBase.apply_chat_template"),
            fixes=(fix,) if "chat_template_path" in values else (),
        )
    ]


def _text_column(data: DatasetFacts) -> tuple[Fix, ...]:
    """Return the fix that names the only column of text as the one to read."""
    texts = [column.name for column in data.columns if column.type == _TEXT and not column.odd_row]
    if len(texts) != 1 or "prompt" in data.types:
        return ()
    return (Fix(label=f"Read the column {texts[0]}", changes={"dataset_text_field": texts[0]}),)


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

RULES: tuple[Callable[[Situation], list[Finding]], ...] = (unread, wrong_format, no_chat_template)
