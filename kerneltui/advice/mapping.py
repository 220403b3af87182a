"""Column mappings: where data lacks what a trainer reads, and has columns that could serve.

The names are those of well-known data sets on the Hub (Alpaca, OpenOrca, GSM8K, ShareGPT, HH-RLHF, UltraFeedback and
their kin), seen in 2026.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator

import msgspec

from kerneltui.advice.finding import Fix
from kerneltui.advice.fit import columns_read, known_fit
from kerneltui.advice.situation import Situation
from kerneltui.facts.dataset import Column, DatasetFacts
from kerneltui.facts.mapping import ColumnMapping
from kerneltui.plan.secrets import without_secrets

_NAMES = {
    "conversation": "messages conversations conversation dialogue dialog chat turns",
    "prompt": "prompt question instruction query problem input user request",
    "context": "input context",
    "completion": "completion response answer output target solution assistant reply summary chosen",
    "chosen": "chosen preferred chosen_response response_chosen answer_chosen accepted better positive",
    "rejected": "rejected dispreferred rejected_response response_rejected answer_rejected worse negative",
    "reference": "reference reference_answer gold",
    "label": "label is_good good desirable thumbs_up is_chosen",
    "system": "system system_prompt system_message",
    "solution": "solution answer final_answer ground_truth target",
}
# Names that data sets give to the two who speak; chat templates know user and assistant.
ROLES = {
    "human": "user", "prompter": "user", "gpt": "assistant", "chatgpt": "assistant", "bot": "assistant",
    "model": "assistant", "ai": "assistant",
}  # fmt: skip
_TEXT, _TALK = ("text",), ("messages", "from/value messages")
_ANSWERS = ("completion", "chosen", "rejected", "reference")
_PAIRED = ("dpo", "reward", "orpo", "cpo", "tpo")


def propose(data: DatasetFacts, trainer: str) -> ColumnMapping | None:
    """Return the mapping with which `trainer` could read the data; None where no columns could serve."""
    if {"image", "images"} & set(data.types) or "image" in data.types.values():
        return None
    roles = {role: ROLES[role] for role in sorted(roles_of(data)) if role in ROLES}
    for columns in _candidates(data, trainer):
        texts = [data.types[name] for found in columns.values() for name in found]
        chat = data.chat_template is True and "text" in texts and not set(texts) & set(_TALK) and "prompt" in columns
        system = _find(data, "system", _TEXT) if "prompt" in columns and "prompt" not in _talking(data) else None
        mapping = ColumnMapping(columns=columns, system=system, chat=chat, roles=roles)
        if known_fit(mapped(data, mapping), trainer).ok:
            return mapping
    return None


def mapped(data: DatasetFacts, mapping: ColumnMapping) -> DatasetFacts:
    """Return what is known of the columns of a copy that is written by a mapping."""
    columns = [Column(name=name, type=_type(data, mapping, name)) for name in mapping.columns]
    return msgspec.structs.replace(data, columns=tuple(columns), trainer=None, prepared=None, refused=None)


def rename_roles(data: DatasetFacts, trainer: str) -> ColumnMapping | None:
    """Return the mapping that gives roles the names that templates know, None where none has another."""
    roles = {role: ROLES[role] for role in sorted(roles_of(data)) if role in ROLES}
    read = [name for name in columns_read(data, trainer) if data.types[name] in _TALK]
    if not roles or not read:
        return None
    return ColumnMapping(columns={"messages" if it == "conversations" else it: (it,) for it in read}, roles=roles)


def roles_of(data: DatasetFacts) -> set[str]:
    """Return the roles in the messages of the rows that were read."""
    values = [value for row in data.rows for value in row.values() if isinstance(value, list)]
    messages = [message for value in values for message in value if isinstance(message, dict)]
    return {str(message.get("role") or message.get("from")) for message in messages}


def copy_fix(situation: Situation, mapping: ColumnMapping | None) -> tuple[Fix, ...]:
    """Return the fix that writes a copy of the data by a mapping, none where there is no mapping."""
    if mapping is None:
        return ()
    plan = without_secrets(situation.plan)
    command = None
    if plan.config_path or plan.config is None:
        arguments = (*([plan.config_path] if plan.config_path else []), *plan.flags)
        command = shlex.join(("kerneltui", "data", plan.trainer, *arguments, "--write", "auto"))
    return (Fix(label=f"Write a copy of the data with {mapping.words}", command=command, mapping=mapping),)


def _candidates(data: DatasetFacts, trainer: str) -> Iterator[dict[str, tuple[str, ...]]]:
    """Give the columns that could serve a trainer, the most likely first."""
    talk = _find(data, "conversation", _TALK)
    prompt = _find(data, "prompt", (*_TEXT, *_TALK))
    context = _find(data, "context", _TEXT, without=prompt) if prompt in ("instruction", "question") else None
    asked = tuple(filter(None, (prompt, context)))
    found = {name: _find(data, name, (*_TEXT, *_TALK), without=prompt) for name in _ANSWERS}
    if trainer in _PAIRED or trainer == "kto":
        yield from _pairs(data, trainer, asked, found)
    elif trainer in ("sft", "gkd", "gold"):
        if talk:
            yield {"messages": (talk,)}
        if asked and found["completion"]:
            answer = (found["completion"],)
            yield {"prompt": asked, "completion": answer} if trainer == "sft" else {"messages": (*asked, *answer)}
        if found["chosen"]:
            yield {"messages": (found["chosen"],)}
    else:
        more = _for_rewards(data, prompt)
        if asked:
            yield {"prompt": asked, **more}
        if talk:
            yield {"prompt": (talk,), **more}


def _pairs(
    data: DatasetFacts, trainer: str, asked: tuple[str, ...], found: dict[str, str | None]
) -> Iterator[dict[str, tuple[str, ...]]]:
    wanted = ("chosen", "rejected", *(["reference"] if trainer == "tpo" else []))
    if all(found[name] for name in wanted):
        pair: dict[str, tuple[str, ...]] = {name: (str(found[name]),) for name in wanted}
        if asked:
            yield {"prompt": asked, **pair}
        yield pair
    label = _find(data, "label", ("bool", "int"))
    if trainer == "kto" and asked and found["completion"] and label:
        yield {"prompt": asked, "completion": (found["completion"],), "label": (label,)}


def _for_rewards(data: DatasetFacts, prompt: str | None) -> dict[str, tuple[str, ...]]:
    """Return what could serve as the columns that reward functions want and the data lacks."""
    lacking = {name for columns in data.reward_lacks.values() for name in columns} & set(_NAMES)
    found = {name: _find(data, name, _TEXT, without=prompt) for name in sorted(lacking)}
    return {name: (source,) for name, source in found.items() if source}


def _find(data: DatasetFacts, meaning: str, kinds: Iterable[str], without: str | None = None) -> str | None:
    """Return the column that could be meant, by the names that it has elsewhere."""
    there = {re.sub(r"\W", "_", name.lower()): name for name, kind in data.types.items() if kind in kinds}
    return next((there[it] for it in _NAMES[meaning].split() if it in there and there[it] != without), None)


def _talking(data: DatasetFacts) -> set[str]:
    return {name for name, kind in data.types.items() if kind in _TALK}


def _type(data: DatasetFacts, mapping: ColumnMapping, name: str) -> str:
    kinds = {data.types[source] for source in mapping.columns[name]}
    if name == "messages" or kinds <= set(_TALK) or (mapping.chat and kinds == {"text"} and name != "solution"):
        return "messages"
    return "text" if kinds == {"text"} else kinds.pop()
