"""The data: what a trainer would fail on, and what mends it."""

from __future__ import annotations

from collections.abc import Callable

from kerneltui.advice.finding import Finding, Fix, Severity
from kerneltui.advice.fit import TRAINERS, fits, known_fit
from kerneltui.advice.mapping import copy_fix, propose, rename_roles
from kerneltui.advice.situation import Situation
from kerneltui.facts.dataset import DatasetFacts

# A model whose template TRL's documentation takes for base models (docs: sft_trainer, chat_template_path).
_TEMPLATE = "HuggingFaceTB/SmolLM3-3B"


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
    if refused is None or known_fit(data, trainer, field).ok is False:
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
            fixes=(*(_text_column(data) if trainer == "sft" else ()), *copy_fix(situation, propose(data, trainer))),
        )
    ]


def foreign_roles(situation: Situation) -> list[Finding]:
    """Most chat templates write a role as it is, and a model that knows "user" has never seen "human"."""
    data, trainer = situation.data, situation.plan.trainer
    mapping = rename_roles(data, trainer) if data and fits(data, trainer).ok is not False else None
    if mapping is None:
        return []
    return [
        Finding(
            id="data.roles",
            severity="warn",
            title=f"The messages have the roles {' and '.join(mapping.roles)}, which chat templates do not know",
            why="TRL renames the fields from and value, but no roles: most templates write these words as they are.",
            origin="known",
            source=situation.cite("trl", "data_utils.maybe_convert_to_chatml"),
            fixes=copy_fix(situation, mapping),
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
    texts = [column.name for column in data.columns if column.type == "text" and not column.odd_row]
    if len(texts) != 1 or "prompt" in data.types:
        return ()
    return (Fix(label=f"Read the column {texts[0]}", changes={"dataset_text_field": texts[0]}),)


RULES: tuple[Callable[[Situation], list[Finding]], ...] = (unread, wrong_format, foreign_roles, no_chat_template)
