"""What is asked about a data set, and what its refusals are called; the real reading is in tests/worker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kerneltui.errors import KerneltuiError, UsageError
from kerneltui.facts.dataset import DatasetFacts, dataset_name, read_dataset

ROWS: dict[str, Any] = {"columns": [{"name": "text", "type": "text"}], "format": "language modeling", "rows": []}


class StubAsker:
    """Answers with what it is told, and keeps what it was asked."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self.answer = answer
        self.asked: dict[str, Any] = {}

    def ask(self, question: str, **arguments: Any) -> Any:
        self.asked = {"question": question, **arguments}
        return self.answer


def _read(answer: dict[str, Any], values: dict[str, Any]) -> tuple[DatasetFacts, dict[str, Any]]:
    asker = StubAsker(answer)
    return read_dataset(asker, values, Path("/"), "sft", rows=3), asker.asked  # type: ignore[arg-type]


def test_a_name_is_asked_about_as_an_entry_of_datasets() -> None:
    values = {
        "dataset_name": "a/b", "dataset_config": "en", "dataset_train_split": "train_sft", "datasets": [],
        "dataset_text_field": "content", "model_name_or_path": "c/d",
    }  # fmt: skip
    facts, asked = _read(ROWS, values)
    assert asked["sources"] == [{"path": "a/b", "name": "en", "split": "train_sft"}]
    assert asked["options"] == {"dataset_text_field": "content"}
    assert (asked["model"], asked["rows"], asked["cwd"]) == ("c/d", 3, "/")
    assert (facts.name, facts.split, facts.parts, facts.kind) == ("a/b", "train_sft", 1, "language modeling, standard")


def test_of_a_mixture_all_parts_are_read() -> None:
    entries = [{"path": "a/b", "split": "part"}, {"path": "c/d"}]
    facts, asked = _read(ROWS, {"datasets": entries, "dataset_name": "ignored/by-trl"})
    assert asked["sources"] == entries
    assert (facts.name, facts.split, facts.parts) == ("a/b", "part", 2)


@pytest.mark.parametrize(
    ("part", "title"),
    [(0, "No data set a/b on the Hub"), (1, "No data set c/d on the Hub"), (None, "The parts of the data do not go")],
)
def test_of_a_mixture_the_part_that_is_refused_is_named(part: int | None, title: str) -> None:
    answer = {"error_type": "RepositoryNotFoundError", "error": "no", "status": 404, "part": part}
    with pytest.raises(KerneltuiError) as raised:
        _read(answer, {"datasets": [{"path": "a/b"}, {"path": "c/d"}]})
    assert raised.value.title.startswith(title)


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({}, None),
        ({"dataset_name": None, "datasets": []}, None),
        ({"dataset_name": "a/b"}, "a/b"),
        ({"datasets": [{"path": "json", "data_files": "rows.jsonl"}]}, "rows.jsonl"),
        ({"datasets": [{"path": "json", "data_files": ["a", "b"]}]}, "json"),
    ],
)
def test_what_the_data_is_called(values: dict[str, Any], name: str | None) -> None:
    assert dataset_name(values) == name


@pytest.mark.parametrize("values", [{}, {"dataset_name": 3}, {"datasets": ["a/b"]}, {"datasets": [{"path": None}]}])
def test_values_that_name_no_data_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        _read(ROWS, values)


REFUSALS = [
    ("ValueError", "Bad split: x. Available splits: ['train', 'test']", None, "a/b needs another split", "'test'"),
    ("ValueError", "BuilderConfig 'x' not found. Available: ['en', 'vi']", None, "needs another configuration", "'vi'"),
    (
        "ValueError",
        "Config name is missing.\nPlease pick one among the available configs: ['en', 'vi']",
        None, "needs another configuration", "'en', 'vi'",
    ),
    ("DatasetNotFoundError", "Dataset 'a/b' is a gated dataset on the Hub.", None, "a/b is gated", "Ask for access"),
    ("RepositoryNotFoundError", "401 Client Error", 401, "or it is private", "hf auth login"),
    ("HfHubHTTPError", "Too many", 429, "did not give a/b (429)", "Wait"),
    ("HfHubHTTPError", "Oops", 502, "did not give a/b (502)", "try again"),
    ("ConnectionError", "Couldn't reach 'a/b' on the Hub", None, "cannot be reached", "local file"),
    ("ConnectTimeout", "", None, "cannot be reached", "local file"),
    ("NoRowsError", "there is no row", None, "a/b has no rows", "at least one"),
    ("ArrowInvalid", "JSON parse error: Invalid value. in row 41", None, "cannot be read", "Correct"),
    ("SomethingNew", "", None, "cannot be read", "Correct"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "message", "status", "title", "hint"), REFUSALS)
def test_refusals_are_told_apart(kind: str, message: str, status: int | None, title: str, hint: str) -> None:
    with pytest.raises(KerneltuiError) as raised:
        _read({"error_type": kind, "error": message, "status": status}, {"dataset_name": "a/b"})
    assert title in raised.value.title
    assert hint in raised.value.hint
    if kind == "ArrowInvalid":
        assert raised.value.message.startswith("Row 42 of the part that was read")


def test_the_tokenizer_is_asked_for_at_the_revision_of_the_model() -> None:
    def revision(**values: Any) -> Any:
        return _read(ROWS, {"dataset_name": "a/b", "model_name_or_path": "c/d", **values})[1]["revision"]

    assert revision(model_revision="v2") == "v2"
    assert revision(model_revision="main") is None
    assert revision(model_revision="v2", model_init_kwargs={"revision": "v3"}) == "v3"
    assert revision(model_revision="v2", model_init_kwargs={"dtype": "auto"}) == "v2"
