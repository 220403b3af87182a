"""The fields of the installed TRL, and the groups that show them."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kerneltui.errors import UsageError
from kerneltui.interpreter import Asker
from kerneltui.plan.edit import edit_config
from kerneltui.plan.fields import Field, read_fields
from kerneltui.plan.groups import GROUPS, groups, other_fields
from kerneltui.plan.plan import make_plan
from kerneltui.plan.settings import read_settings
from kerneltui.plan.values import parse_value, value_text
from kerneltui.text import plain
from kerneltui.worker.experimental import experimental_trainers

TRAINERS = ("sft", "dpo", "kto", "reward", "grpo", "rloo", "distillation")


@pytest.fixture(scope="module")
def sft(asker: Asker) -> dict[str, Field]:
    return {field.name: field for field in read_fields(asker, "sft")}


@pytest.mark.parametrize("trainer", [*TRAINERS, *experimental_trainers()])
def test_every_field_of_the_parser_is_there_once(asker: Asker, trainer: str) -> None:
    fields = read_fields(asker, trainer)
    settings = read_settings(make_plan(trainer, []), asker)
    assert sorted(field.name for field in fields) == sorted(settings.values)
    assert {field.name: field.owner for field in fields} == settings.owners
    parsed = settings.values | {"include_num_input_tokens_seen": "no"}  # argparse makes False of TRL's default
    assert {field.name: field.default for field in fields} == parsed
    assert all(field.type == "choice" or field.type in field.kinds for field in fields)


def test_types_choices_and_help_are_trls(sft: dict[str, Field]) -> None:
    assert {name: sft[name].type for name in ("packing", "max_length", "learning_rate", "report_to", "bf16")} == {
        "packing": "bool", "max_length": "int", "learning_rate": "float", "report_to": "list", "bf16": "bool",
    }  # fmt: skip
    assert sft["packing_strategy"].choices == ("bfd", "bfd_split", "wrapped")
    assert sft["deepspeed"].kinds == ("mapping", "str")  # the path of a file
    assert sft["model_init_kwargs"].kinds == ("mapping",)
    assert sft["datasets"].items == "mapping"
    assert sft["packing"].own and not sft["learning_rate"].own and not sft["lora_r"].own
    assert not any("%%" in field.help or "\n" in field.help for field in sft.values())


def test_values_that_a_help_text_names_are_suggested(asker: Asker) -> None:
    fields = {field.name: field for field in read_fields(asker, "dpo")}
    assert {"sigmoid", "ipo", "robust"} <= set(fields["loss_type"].suggestions)
    assert fields["f_divergence_type"].suggestions[:2] == ("reverse_kl", "forward_kl")


def test_a_trainer_that_is_not_there_is_told_with_the_nearest(asker: Asker) -> None:
    with pytest.raises(UsageError, match="Did you mean sft"):
        read_fields(asker, "sfft")


@pytest.mark.parametrize("trainer", TRAINERS)
def test_groups_and_the_other_fields_are_all_fields(asker: Asker, trainer: str) -> None:
    fields = read_fields(asker, trainer)
    grouped = [entry.name for group in groups(trainer, fields) for entry in group.entries]
    others = [field.name for field in other_fields(trainer, fields)]
    assert len(grouped) == len(set(grouped))
    assert sorted([*grouped, *others]) == sorted(field.name for field in fields)


def test_the_groups_of_sft_and_dpo_name_what_is_there(asker: Asker) -> None:
    for trainer, chosen in GROUPS.items():
        names = {field.name for field in read_fields(asker, trainer)}
        entries = [entry for group in chosen for entry in group.entries]
        assert [entry.name for entry in entries if entry.name not in names] == []
        assert all(entry.label and "\n" not in entry.help and len(entry.help) < 100 for entry in entries)
        own = {field.name for field in read_fields(asker, trainer) if field.own}
        # What both trainers leave to the search: Python-side, deprecated, or decided in other steps.
        assert own - {entry.name for entry in entries} <= {
            "trust_remote_code", "dataset_kwargs", "dataset_num_proc", "pad_token", "padding_free",
        }  # fmt: skip


def test_fields_that_the_installed_trl_lacks_are_dropped(sft: dict[str, Field]) -> None:
    (group,) = groups("sft", [sft["packing"]])
    assert (group.title, [entry.name for entry in group.entries]) == ("Packing", ["packing"])


def _field(kind: str, **more: Any) -> Field:
    return Field(name="x", owner="C", type=kind, **{"kinds": (kind,), **more})  # type: ignore[arg-type]


TYPED = [
    ("bool", {}, "yes", True),
    ("bool", {}, "OFF", False),
    ("bool", {"optional": True}, "none", None),
    ("int", {}, "1e3", 1000),
    ("int", {}, "8.0", 8),
    ("int", {"kinds": ("int", "str"), "optional": True}, "auto", "auto"),
    ("int", {"optional": True}, "", None),
    ("float", {}, "2e-5", 2e-5),
    ("float", {}, "500", 500),
    ("float", {}, ".5", 0.5),
    ("str", {"optional": True}, "none", "none"),
    ("str", {"optional": True}, "~", None),
    ("str", {}, "007", "007"),
    ("str", {"kinds": ("str", "bool")}, "false", False),
    ("choice", {"kinds": ("str",), "choices": ("no", "steps")}, "No", "no"),
    ("list", {"items": "str"}, "q_proj, v_proj", ["q_proj", "v_proj"]),
    ("list", {"items": "str"}, "q_proj v_proj", ["q_proj", "v_proj"]),
    ("list", {"items": "str"}, "[true, 1]", ["true", "1"]),
    ("list", {"items": "str", "kinds": ("str", "list")}, "none", "none"),
    ("list", {"items": "float"}, "1, 0.5", [1, 0.5]),
    ("list", {"items": "mapping"}, "[{path: json, data_files: a.jsonl}]", [{"path": "json", "data_files": "a.jsonl"}]),
    ("mapping", {}, "{min_lr: 1e-6}", {"min_lr": 1e-6}),
    ("mapping", {}, "use_reentrant: no", {"use_reentrant": False}),
    ("mapping", {}, '{"a": {"b": null}}', {"a": {"b": None}}),
    ("mapping", {"kinds": ("mapping", "str")}, "ds/zero2.json", "ds/zero2.json"),
]


@pytest.mark.parametrize(("kind", "more", "text", "value"), TYPED)
def test_what_is_typed_becomes_a_value(kind: str, more: dict[str, Any], text: str, value: Any) -> None:
    parsed = parse_value(_field(kind, **more), text)
    assert parsed == value
    assert type(parsed) is type(value)


REFUSED = [
    ("bool", {}, "perhaps", "yes or no"),
    ("int", {}, "1.5", "a whole number"),
    ("int", {}, "", "a whole number"),
    ("float", {}, "nan", "a number"),
    ("float", {}, "1e999", "a number"),
    ("choice", {"choices": ("steps", "epoch")}, "step", "one of steps, epoch"),
    ("list", {"items": "int"}, "1, x", "whole numbers"),
    ("list", {"items": "mapping"}, "a.jsonl", "list of mappings"),
    ("list", {"items": "str"}, "[{a: 1}]", "words"),
    ("mapping", {}, "just text", "a mapping"),
    ("mapping", {}, "{1: 2}", "a mapping"),
    ("mapping", {}, "{a: 2020-01-01}", "a mapping"),
    ("mapping", {"kinds": ("mapping", "str")}, "{a: .nan}", "a mapping"),
]


@pytest.mark.parametrize(("kind", "more", "text", "takes"), REFUSED)
def test_what_cannot_be_a_value_is_refused_with_what_can(
    kind: str, more: dict[str, Any], text: str, takes: str
) -> None:
    with pytest.raises(UsageError) as raised:
        parse_value(_field(kind, **more), text)
    assert raised.value.title.startswith("x cannot be ")
    assert takes in raised.value.message
    if kind == "choice":
        assert raised.value.hint == "Did you mean steps?"


KINDS = [
    _field("bool"), _field("int", optional=True), _field("float"), _field("str"), _field("mapping"),
    _field("int", kinds=("int", "str")), _field("str", kinds=("str", "bool")),
    _field("choice", choices=("no", "steps")), _field("mapping", kinds=("mapping", "str")),
    _field("list", items="str", kinds=("str", "list")), _field("list", items="float"),
    _field("list", items="mapping"),
]  # fmt: skip
typed = st.text(max_size=30) | st.text(alphabet="[]{}:,-'\"&*!|>#%@` \n\te0123456789.+truefalsn~", max_size=30)


@given(field=st.sampled_from(KINDS), text=typed)
def test_whatever_is_typed_is_a_value_or_a_refusal(field: Field, text: str) -> None:
    with contextlib.suppress(UsageError):
        value = parse_value(field, text)
        assert yaml.safe_load(edit_config("", {"x": value})) == {"x": value}


texts = st.text(max_size=8).filter(lambda text: plain(text) == text)
words = st.text(alphabet="abc_019./-é中", min_size=1, max_size=8)
floats = st.floats(allow_nan=False, allow_infinity=False)
json_like = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**12), 10**12) | floats | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
VALUES: list[tuple[Field, st.SearchStrategy[Any]]] = [
    (_field("bool", optional=True), st.none() | st.booleans()),
    (_field("int", optional=True), st.none() | st.integers()),
    (_field("float"), floats),
    (_field("choice", choices=("no", "steps")), st.sampled_from(["no", "steps"])),
    (_field("list", items="str", kinds=("str", "list")), words | st.lists(texts)),
    (_field("list", items="str"), st.lists(st.sampled_from(["true", "null", "1", "a b", "", "~", "q_proj"]))),
    (_field("list", items="float"), st.lists(floats)),
    (_field("list", items="mapping"), st.lists(st.dictionaries(words, json_like, max_size=2), max_size=2)),
    (_field("mapping"), st.dictionaries(texts, json_like, max_size=3)),
]


@given(st.data())
def test_a_value_shown_and_taken_back_is_the_same(data: st.DataObject) -> None:
    field, values = data.draw(st.sampled_from(VALUES))
    value = data.draw(values)
    again = parse_value(field, value_text(value))
    assert again == value or (isinstance(value, float) and math.isclose(again, value))


def test_every_default_of_trl_can_be_shown_and_taken_back(sft: dict[str, Field]) -> None:
    for field in sft.values():
        assert parse_value(field, value_text(field.default)) == field.default
