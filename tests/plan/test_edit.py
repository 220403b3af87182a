from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kerneltui.errors import UsageError
from kerneltui.plan.edit import edit_config

TEXT = """\
# head
model_name_or_path: Qwen/Qwen3-0.6B  # the model
datasets:
  - path: json   # local
    data_files: a.jsonl

# how fast
learning_rate : 2e-5   # small
"packing": true
note: |
  two
  lines
last: 1"""

KEYS = [*yaml.safe_load(TEXT), "max_length", "save_strategy"]
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(min_size=1), inner, max_size=3),
    max_leaves=4,
)


@given(st.dictionaries(st.sampled_from(KEYS), VALUES), st.sets(st.sampled_from(KEYS)))
def test_an_edited_configuration_says_what_was_asked(values: dict[str, Any], remove: set[str]) -> None:
    expected = {key: value for key, value in yaml.safe_load(TEXT).items() if key not in remove} | values
    assert (yaml.safe_load(edit_config(TEXT, values, remove)) or {}) == expected


def test_what_does_not_change_keeps_its_bytes() -> None:
    assert edit_config(TEXT, {}) == TEXT
    assert edit_config(TEXT, {"packing": True, "last": 1}) == TEXT
    changed = edit_config(TEXT, {"learning_rate": 1e-4, "max_length": None})
    assert changed == TEXT.replace(" 2e-5 ", " 0.0001 ") + "\nmax_length: null\n"


@pytest.mark.parametrize("text", ["", "# only a comment\n", "{}", "{a: 1}"])
def test_an_empty_configuration_takes_its_first_key(text: str) -> None:
    assert yaml.safe_load(edit_config(text, {"b": "yes"})) == {**(yaml.safe_load(text) or {}), "b": "yes"}


def test_a_list_is_no_configuration() -> None:
    with pytest.raises(UsageError, match="holds no settings"):
        edit_config("- a\n", {"b": 1})
