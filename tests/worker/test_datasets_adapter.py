"""The first rows of data sets, as the installed `datasets` and TRL read them."""

from __future__ import annotations

import gzip
import http.server
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kerneltui import demo
from kerneltui.advice.mapping import propose
from kerneltui.errors import KerneltuiError, UsageError
from kerneltui.facts.choices import read_choices
from kerneltui.facts.copying import copy_data, free_folder
from kerneltui.facts.dataset import DatasetFacts, read_dataset
from kerneltui.facts.scan import Scan, scan_data
from kerneltui.facts.totals import totals
from kerneltui.interpreter import Asker, find_interpreter
from kerneltui.plan.sources import data_values
from tests.hub.server import LoopbackHub


class _Hub(http.server.BaseHTTPRequestHandler):
    """A Hub that has nothing, keeps one data set behind a gate, and fails at another."""

    ANSWERS = {
        "gated/data": (403, "GatedRepo"), "busy/data": (429, ""), "broken/data": (503, ""),
    }  # fmt: skip

    def do_GET(self) -> None:
        name = "/".join(self.path.split("?")[0].strip("/").split("/")[-2:])
        status, code = self.ANSWERS.get(name, (401, "RepoNotFound"))
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_GET  # noqa: N815 - the base class looks for this name

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def asker() -> Iterator[Asker]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Hub) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        with Asker(find_interpreter(), environment={"HF_ENDPOINT": address}) as asker:
            yield asker
        server.shutdown()


def _read(asker: Asker, text: str, cwd: Path, trainer: str = "sft", **values: Any) -> DatasetFacts:
    named, _ = data_values(text, cwd)
    return read_dataset(asker, {**named, **values}, cwd, trainer)


@pytest.mark.parametrize(
    ("trainer", "kind"),
    [
        ("sft", "language modeling, conversational"),
        ("dpo", "preference, conversational"),
        ("grpo", "prompt-only, conversational"),
    ],
)
def test_the_embedded_data(asker: Asker, tmp_path: Path, trainer: str, kind: str) -> None:
    model = str(demo.model_path())
    found = _read(asker, str(demo.data_path(trainer)), tmp_path, trainer, model_name_or_path=model)
    assert (found.kind, len(found.rows), found.split, found.chat_template) == (kind, 20, "train", True)
    assert found.tokens is not None and len(found.tokens) == 20
    assert all(5 < tokens < 60 for tokens in found.tokens)
    assert not [column for column in found.columns if column.odd_row]


FORMATS: list[tuple[dict[str, Any], str]] = [
    ({"text": "a"}, "language modeling, standard"),
    ({"conversations": [{"from": "user", "value": "a"}]}, "language modeling, conversational"),
    ({"prompt": "a", "completion": "b"}, "prompt-completion, standard"),
    ({"prompt": "a", "chosen": "b", "rejected": "c"}, "preference, standard"),
    ({"chosen": "b", "rejected": "c"}, "preference, standard"),
    ({"prompt": "a", "completion": "b", "label": True}, "unpaired preference, standard"),
    ({"prompt": [{"role": "user", "content": "a"}]}, "prompt-only, conversational"),
    ({"prompt": "a", "completions": ["b"], "labels": [True]}, "stepwise supervision"),
    ({"input_ids": [1, 2]}, "tokenized"),
    ({"question": "a"}, "a format that TRL does not name"),
]


@pytest.mark.parametrize(("row", "kind"), FORMATS, ids=[kind for _, kind in FORMATS])
def test_formats_are_named_as_trl_names_them(asker: Asker, tmp_path: Path, row: dict[str, Any], kind: str) -> None:
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n")
    found = _read(asker, "rows.jsonl", tmp_path)
    assert found.kind == kind
    assert list(found.rows) == [row]


def test_csv_parquet_text_json_list_and_compressed_files(asker: Asker, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('prompt,completion\na,"b, c"\n')
    (tmp_path / "b.json").write_text(json.dumps([{"text": "你好"}, {"text": "xin chào"}]))
    (tmp_path / "c.txt").write_text("one\ntwo\n")
    with gzip.open(tmp_path / "d.jsonl.gz", "wt") as file:
        file.write('{"text": "a"}\n')
    assert _read(asker, "a.csv", tmp_path).rows == ({"prompt": "a", "completion": "b, c"},)
    assert _read(asker, "b.json", tmp_path).rows == ({"text": "你好"}, {"text": "xin chào"})
    assert _read(asker, "c.txt", tmp_path).types == {"text": "text"}
    assert _read(asker, "d.jsonl.gz", tmp_path).rows == ({"text": "a"},)
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pytest.importorskip("pyarrow").Table.from_pylist([{"text": "a", "n": 1, "f": 0.5, "ok": True}])
    parquet.write_table(table, tmp_path / "e.parquet")
    assert _read(asker, "e.parquet", tmp_path).types == {"text": "text", "n": "int", "f": "float", "ok": "bool"}


def test_folders_splits_and_columns(asker: Asker, tmp_path: Path) -> None:
    folder = tmp_path / "data one"
    folder.mkdir()
    (folder / "train.jsonl").write_text('{"text": "a", "id": 1}\n')
    (folder / "test.jsonl").write_text('{"text": "b", "id": 2}\n')
    found = _read(asker, "data one", tmp_path, dataset_train_split="test")
    assert (found.rows, found.split) == (({"text": "b", "id": 2},), "test")
    entry = {"path": "data one", "columns": ["id"]}
    assert list(read_dataset(asker, {"datasets": [entry]}, tmp_path, "sft").types) == ["id"]
    with pytest.raises(UsageError) as raised:
        _read(asker, "data one", tmp_path, dataset_train_split="validation")
    assert raised.value.title == "data one needs another split"
    part = _read(asker, "data one", tmp_path, dataset_train_split="test[:50%]+train")
    assert part.rows == ({"text": "b", "id": 2},)
    assert "'train'" in raised.value.hint
    with pytest.raises(UsageError, match=r"another configuration"):
        _read(asker, "data one", tmp_path, dataset_config="none")


def test_a_mixture_is_joined_as_trl_joins_it(asker: Asker, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a", "id": 1}\n' * 30)
    (tmp_path / "b.jsonl").write_text('{"text": "b"}\n' * 5)
    (tmp_path / "c.jsonl").write_text('{"text": 3}\n')
    a, b, c = ({"path": "json", "data_files": f"{name}.jsonl"} for name in "abc")
    found = read_dataset(asker, {"datasets": [a, b]}, tmp_path, "sft", rows=6)
    assert ([row["text"] for row in found.rows], found.parts, found.total, found.counted) == (
        list("aaabbb"),
        2,
        35,
        True,
    )
    with pytest.raises(UsageError, match="The parts of the data do not go together"):
        read_dataset(asker, {"datasets": [a, c]}, tmp_path, "sft")
    with pytest.raises(UsageError, match="No data file at none"):
        read_dataset(asker, {"datasets": [a, {"path": "json", "data_files": "none.jsonl"}]}, tmp_path, "sft")


def test_what_the_trainer_makes_of_the_rows(asker: Asker, tmp_path: Path) -> None:
    """Held against numbers that are counted by hand, and by the tokenizer of the demo's model."""
    model = str(demo.model_path())
    options: dict[str, Any] = {"model_name_or_path": model, "max_length": 24, "assistant_only_loss": True}
    found = _read(asker, str(demo.data_path("sft")), tmp_path, **options).prepared
    assert found is not None
    first = found.examples[0]
    assert "".join(piece.text for piece in first.pieces if piece.loss) == "2 plus 3 is 5.<|im_end|>"
    assert first.pieces[0].text == "<|im_start|>user\nWhat is 2 plus 3?<|im_end|>\n<|im_start|>assistant\n"
    assert found.sequences[0].loss_tokens == 7
    assert all(sequence.has_eos for sequence in found.sequences)
    assert (found.eos, found.max_length, found.dropped) == ("<|im_end|>", 24, ())
    assert found.cut_share == sum(tokens > 24 for tokens in found.lengths) / 20
    packed = _read(asker, str(demo.data_path("sft")), tmp_path, **{**options, "packing": True, "max_length": 64})
    assert packed.prepared is not None and packed.prepared.packed is not None
    assert sum(packed.prepared.packed) == sum(found.lengths)
    assert found.packable is not None and sum(found.packable) == totals(found).tokens, "what packing would keep"
    # Cut at the limit, and what the collator would fill up.
    long = next(example for example in found.examples if example.length > 24)
    assert [sum(piece.count for piece in long.pieces if piece.kept is kept) for kept in (True, False)] == [
        24, long.length - 24,
    ]  # fmt: skip
    tokens = [token for piece in first.pieces for token in piece.tokens]
    assert "".join(tokens) == "".join(piece.text for piece in first.pieces)


def test_a_scan_reads_every_row_and_can_be_stopped(asker: Asker, tmp_path: Path) -> None:
    rows = [{"prompt": "2+2?", "completion": "4 " * number} for number in range(1, 26)]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    values = {
        "datasets": [{"path": "json", "data_files": "rows.jsonl"}],
        "model_name_or_path": str(demo.model_path()), "max_length": 20,
    }  # fmt: skip
    seen: list[Scan] = []
    found = scan_data(asker, values, tmp_path, "sft", on_scan=seen.append)
    looked = read_dataset(asker, values, tmp_path, "sft", rows=25).prepared
    assert looked is not None
    assert (found.totals, found.done, found.refused) == (totals(looked), True, None)
    assert found.totals.cut > 0
    assert scan_data(asker, values, tmp_path, "sft", stop=lambda: True) == Scan()
    path.write_text(path.read_text() + json.dumps({"prompt": "2+2?", "completion": None}) + "\n")
    refused = scan_data(asker, values, tmp_path, "sft").refused
    assert refused is not None
    assert (refused.row, refused.column) == (26, "completion")
    with pytest.raises(KerneltuiError, match="it would take whole splits"):
        scan_data(asker, {**values, "datasets": [{"path": "json", "split": "train[:3]"}]}, tmp_path, "sft")


def test_a_copy_with_other_columns_is_read_as_the_trainer_reads_it(asker: Asker, tmp_path: Path) -> None:
    rows = [{"question": f"{number}+1?", "answer": f"{number + 1} 你好"} for number in range(30)]
    for split in ("train", "test"):
        (tmp_path / "qa").mkdir(exist_ok=True)
        (tmp_path / "qa" / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    values = {"dataset_name": "qa", "eval_strategy": "steps", "model_name_or_path": str(demo.model_path())}
    mapping = propose(read_dataset(asker, values, tmp_path, "sft"), "sft")
    assert mapping is not None
    folder = free_folder(values, tmp_path, "sft")
    assert copy_data(asker, values, tmp_path, mapping, folder, stop=lambda: True) is None
    assert not (tmp_path / folder).exists(), "nothing is left"
    copied = copy_data(asker, values, tmp_path, mapping, folder)
    assert copied is not None
    assert (copied.folder, copied.rows) == ("kerneltui-data/qa-sft", 60)
    assert copied.changes["dataset_name"] == folder
    assert sorted(path.name for path in (tmp_path / folder).iterdir()) == ["test.jsonl", "train.jsonl"]
    found = read_dataset(asker, {**values, **copied.changes}, tmp_path, "sft")
    assert (found.kind, found.total, found.refused) == ("prompt-completion, conversational", None, None)
    assert found.prepared is not None and found.prepared.constructed
    assert free_folder(values, tmp_path, "sft") == f"{folder}-2"
    broken = {**values, "dataset_name": None, "datasets": [{"path": "json", "data_files": "qa/train.jsonl"}]}
    (tmp_path / "qa" / "train.jsonl").write_text('{"question": "a", "answer": "b"}\n' * 3 + "no\n")
    with pytest.raises(UsageError, match="cannot be read"):
        copy_data(asker, broken, tmp_path, mapping, f"{folder}-2")
    assert not (tmp_path / f"{folder}-2").exists()


def test_a_template_that_is_not_here_is_no_fault_of_the_rows(asker: Asker, tmp_path: Path) -> None:
    options = {"model_name_or_path": str(demo.model_path()), "chat_template_path": "none/here"}
    found = _read(asker, str(demo.data_path("sft")), tmp_path, **options)
    assert (found.prepared, found.refused) == (None, None)
    assert "is not on this machine" in str(found.no_tokens)


def test_rows_that_are_left_out_are_named(asker: Asker, tmp_path: Path) -> None:
    rows = [{"prompt": "a " * (40 if number == 2 else 2), "completion": "b"} for number in range(1, 5)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = _read(asker, "rows.jsonl", tmp_path, model_name_or_path=str(demo.model_path()), max_length=16)
    assert found.prepared is not None and found.prepared.dropped == (2,)


def test_the_first_row_that_is_of_another_kind_is_told(asker: Asker, tmp_path: Path) -> None:
    rows = ['{"text": "a", "n": 1}', '{"text": "b", "n": 2.5}', '{"text": null, "n": 3}', '{"text": 4, "n": 1}']
    (tmp_path / "rows.jsonl").write_text("\n".join(rows))
    text, number = _read(asker, "rows.jsonl", tmp_path).columns
    assert (text.type, text.odd_row, text.odd_type) == ("text", 3, "null")
    assert (number.type, number.odd_row) == ("float", None)


def test_long_values_are_cut_and_what_is_no_json_is_told(asker: Asker, tmp_path: Path) -> None:
    row = {"text": "x" * 5000, "n": float("nan"), "many": list(range(500)), "deep": {"a": {"b": ["c" * 900]}}}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n")
    (shown,) = _read(asker, "rows.jsonl", tmp_path).rows
    assert len(shown["text"]) < 700
    assert shown["text"].endswith("…")
    assert len(shown["many"]) < 40
    assert shown["n"] in (None, "nan")
    assert len(shown["deep"]["a"]["b"][0]) < 700


def test_no_more_than_the_head_of_a_file_is_read(asker: Asker, tmp_path: Path) -> None:
    row = json.dumps({"text": "word " * 200}) + "\n"
    (tmp_path / "small.jsonl").write_text(row * 100)
    with (tmp_path / "large.jsonl").open("w") as file:
        for _ in range(30):
            file.write(row * 5000)  # 5 MB
        file.write("and then nonsense\n")
    for name in ("small", "large"):
        assert len(_read(asker, f"{name}.jsonl", tmp_path).rows) == 20


ERRORS: list[tuple[str, bytes | None, str, str]] = [
    ("rows.jsonl", b'{"a": 1}\nnot json\n', "is not JSON", "Line 2"),
    ("rows.csv", b"a,b\n1,2\n3,4,5\n", "rows.csv cannot be read as csv", "line 3"),
    ("rows.parquet", b"not parquet", "rows.parquet cannot be read as parquet", "magic bytes"),
    ("rows.jsonl", b"", "is empty", ""),
    ("rows.csv", b"", "rows.csv has no rows", ""),
    ("rows.csv", b"a,b\n\xe9,1\n", "rows.csv is not UTF-8 text", "0xe9"),
    ("nowhere.jsonl", None, "No data file at nowhere.jsonl", "Nothing matches"),
    ("./nowhere", None, "No data set at ./nowhere", "does not exist"),
    ("a/b/c", None, "No data at a/b/c", "Couldn't find"),
    ("gated/data", None, "gated/data is gated", ""),
    ("busy/data", None, "The Hub did not give busy/data (429)", ""),
    ("broken/data", None, "The Hub did not give broken/data (503)", ""),
    ("nobody/nothing", None, "No data set nobody/nothing on the Hub, or it is private", ""),
]


@pytest.mark.parametrize(("name", "content", "title", "message"), ERRORS, ids=[f"{it[0]} {it[2]}" for it in ERRORS])
def test_what_cannot_be_read_says_why(
    asker: Asker, tmp_path: Path, name: str, content: bytes | None, title: str, message: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(KerneltuiError) as raised:
        _read(asker, name, tmp_path)
    assert title in raised.value.title
    assert message in raised.value.message
    assert raised.value.hint


def test_a_hub_that_cannot_be_reached_is_told_at_once(tmp_path: Path) -> None:
    with Asker(find_interpreter(), environment={"HF_ENDPOINT": "http://127.0.0.1:9"}) as asker:
        asker.ask("trl.prepare")
        with pytest.raises(KerneltuiError, match="the Hub cannot be reached and the cache does not hold it"):
            _read(asker, "trl-lib/Capybara", tmp_path)
        # The libraries go on as before: a local file is read, and the Hub would be asked again.
        (tmp_path / "rows.jsonl").write_text('{"text": "a"}\n')
        assert _read(asker, "rows.jsonl", tmp_path).rows


def test_a_large_list_is_not_read_as_a_whole(asker: Asker, tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_text('[{"text": "a"},\n')
    os.truncate(path, 300 << 20)
    with pytest.raises(KerneltuiError) as raised:
        _read(asker, "rows.json", tmp_path)
    assert raised.value.title == "rows.json is too large to look into"


def test_why_tokens_were_not_counted(asker: Asker, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"messages": [{"role": "user", "content": "a"}]}\n')
    assert _read(asker, "rows.jsonl", tmp_path).no_tokens == "no model is named"
    elsewhere = _read(asker, "rows.jsonl", tmp_path, model_name_or_path="nobody/nothing")
    assert (elsewhere.tokens, elsewhere.no_tokens) == (None, "the model's tokenizer is not on this machine")
    bare = tmp_path / "model"
    bare.mkdir()
    for file in demo.model_path().iterdir():
        if file.suffix == ".json":
            (bare / file.name).write_bytes(file.read_bytes())
    found = _read(asker, "rows.jsonl", tmp_path, model_name_or_path=str(bare))
    assert (found.tokens, found.chat_template) == (None, False)
    assert (found.no_tokens or "").startswith("row 1: ")


def test_columns_that_reward_functions_want(asker: Asker, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"prompt": "2+2?"}\n')
    functions = ["accuracy_reward", "think_format_reward", "get_soft_overlong_punishment", "my.own", "nope"]
    found = _read(asker, "rows.jsonl", tmp_path, "grpo", reward_funcs=functions)
    assert found.reward_lacks == {"accuracy_reward": ("solution",)}
    found = _read(asker, str(demo.data_path("grpo")), tmp_path, "grpo", reward_funcs=functions)
    assert found.reward_lacks == {}


OWN = """
import os, time
def contains(completions, solution, **_):
    print("a word that must not disturb")
    return [float(right in it[0]["content"]) for it, right in zip(completions, solution)]
async def boxed(completions, **_):
    return [float(it[0]["content"].split("boxed")[1] != "") for it in completions]
def one(**_):
    return [1.0]
def dies(**_):
    os.abort()
"""


def test_reward_functions_are_tried_on_completions_made_from_the_rows(asker: Asker, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN)
    names = ["think_format_reward", "mine.contains", "mine.boxed", "mine.one", "mine.dies", "mine.absent", "nope"]
    found = _read(asker, str(demo.data_path("grpo")), tmp_path, "grpo", reward_funcs=names)
    trials = {trial.name: trial for trial in found.rewards}
    assert list(trials) == names
    right, thought, nothing = (it.scores for it in trials["think_format_reward"].tries)
    assert (set(right), set(thought), set(nothing)) == ({0.0}, {1.0}, {0.0})
    right, thought, nothing = (it.scores for it in trials["mine.contains"].tries)
    assert (set(right), set(thought), set(nothing)) == ({1.0}, {1.0}, {0.0})
    assert [it.kind for it in trials["mine.boxed"].failures] == ["what is right", "nothing"]
    assert (trials["mine.boxed"].failures[0].place or "").endswith("mine.py:7")
    assert "returns 1 rewards for 3 completions" in str(trials["mine.one"].failures[0].error)
    assert trials["mine.dies"].no_answer == "its process died"
    assert "has no attribute 'absent'" in str(trials["mine.absent"].error)
    assert "TRL has accuracy_reward, " in str(trials["nope"].error)
    (tmp_path / "mine.py").write_text("def absent(completions, **_):\n    return [0.5 for _ in completions]\n")
    (again,) = _read(asker, str(demo.data_path("grpo")), tmp_path, "grpo", reward_funcs=["mine.absent"]).rewards
    assert set(again.scores) == {0.5}, "a file that was changed is read anew"


CARD = """---
configs:
- config_name: en
  data_files: [{split: train, path: en/train.jsonl}, {split: validation, path: en/valid.jsonl}]
- config_name: vi
  data_files: [{split: train, path: vi/train.jsonl}]
  %s
---
"""


def test_configurations_and_splits_are_listed(asker: Asker, tmp_path: Path) -> None:
    for name in ("en/train", "en/valid", "vi/train"):
        (tmp_path / "many" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "many" / f"{name}.jsonl").write_text('{"text": "a"}\n')
    (tmp_path / "many" / "README.md").write_text(CARD % "")
    found = read_choices(asker, "many", tmp_path)
    assert (found.configurations, found.default, found.splits) == (("en", "vi"), None, ())
    assert read_choices(asker, "many", tmp_path, configuration="en").splits == ("train", "validation")
    (tmp_path / "many" / "README.md").write_text(CARD % "default: true")
    found = read_choices(asker, "many", tmp_path)
    assert (found.default, found.configuration, found.splits) == ("vi", "vi", ("train",))
    with pytest.raises(UsageError, match="another configuration"):
        read_choices(asker, "many", tmp_path, configuration="fr")


@pytest.mark.full
def test_a_data_set_of_the_hub(hub: LoopbackHub, tmp_path: Path) -> None:
    rows = b'{"text": "a b"}\n' * 3
    card = (CARD % "default: true").encode()
    hub.add("dataset", "tests/many", {
        "README.md": card, "en/train.jsonl": rows, "en/valid.jsonl": rows, "vi/train.jsonl": rows,
    })  # fmt: skip
    with Asker(find_interpreter(), environment=hub.environment()) as asker:
        found = read_choices(asker, "tests/many", tmp_path, configuration="en")
        assert (found.configurations, found.splits) == (("en", "vi"), ("train", "validation"))
        entries = [{"path": "tests/many", "name": "en", "split": "validation"}, {"path": "tests/many"}]
        mixed = read_dataset(asker, {"datasets": entries}, tmp_path, "sft")
        assert (len(mixed.rows), mixed.parts, mixed.split) == (6, 2, "validation")


@pytest.mark.parametrize(("name", "title"), [("gated/data", "gated/data is gated"), ("none/here", "No data set")])
def test_choices_that_the_hub_does_not_give(asker: Asker, tmp_path: Path, name: str, title: str) -> None:
    with pytest.raises(KerneltuiError) as raised:
        read_choices(asker, name, tmp_path)
    assert raised.value.title.startswith(title)


@pytest.mark.full
def test_the_tokenizer_is_that_of_the_revision(hub: LoopbackHub, tmp_path: Path) -> None:
    files = {path.name: path.read_bytes() for path in demo.model_path().iterdir() if path.suffix == ".json"}
    hub.add("model", "tests/small", files)
    chat = {path.name: path.read_bytes() for path in demo.model_path().iterdir() if path.suffix != ".safetensors"}
    hub.add("model", "tests/small", chat, branch="chat")
    (tmp_path / "rows.jsonl").write_text('{"messages": [{"role": "user", "content": "a"}]}\n')
    values = {"datasets": [{"path": "json", "data_files": "rows.jsonl"}], "model_name_or_path": "tests/small"}
    with Asker(find_interpreter(), environment=hub.environment()) as asker:
        here = read_dataset(asker, {**values, "model_revision": "chat"}, tmp_path, "sft")
        assert here.no_tokens == "the model's tokenizer is not on this machine", "a look downloads nothing"
        found = read_dataset(asker, {**values, "model_revision": "chat"}, tmp_path, "sft", download=True)
        assert (found.chat_template, found.refused) == (True, None)
        main = {**values, "model_init_kwargs": {"revision": "main"}, "model_revision": "chat"}
        assert read_dataset(asker, main, tmp_path, "sft", download=True).chat_template is False
