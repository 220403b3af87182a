"""Completion of names: of this machine first, then paths, then the Hub."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kerneltui.errors import HubError
from kerneltui.facts.cached_names import cached_names
from kerneltui.facts.hub import Hub
from kerneltui.tui.steps.model import split_revision
from kerneltui.tui.suggest import NameSuggester, complete_path
from tests.hub.server import LoopbackHub


async def test_known_names_come_before_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kerneltui.tui.suggest._PAUSE", 0)
    asked: list[str] = []

    def search(start: str) -> list[str]:
        asked.append(start)
        return ["Qwen/Qwen3-8B"]

    names = NameSuggester(lambda: ["Qwen/Qwen3-0.6B", "mine/model"], search)
    assert await names.get_suggestion("Qwen/Qwen3-0") == "Qwen/Qwen3-0.6B"
    assert await names.get_suggestion("mine/model") is None
    assert await names.get_suggestion("Q") == "Qwen/Qwen3-0.6B"
    assert await names.get_suggestion("other") is None
    assert asked == ["mine/model"], "only what has an owner and two letters is worth asking for"
    assert await names.get_suggestion("Qwen/Qwen3-8") == "Qwen/Qwen3-8B"


async def test_a_hub_that_does_not_answer_suggests_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kerneltui.tui.suggest._PAUSE", 0)

    def search(_: str) -> list[str]:
        raise HubError("unreachable", "The Hub cannot be reached")

    assert await NameSuggester(list, search).get_suggestion("Qwen/Qwen3") is None


def test_paths_are_completed(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").touch()
    (tmp_path / ".hidden").touch()
    assert complete_path(f"{tmp_path}/ro") == f"{tmp_path}/rows.jsonl"
    assert complete_path(f"{tmp_path}/") == f"{tmp_path}/rows.jsonl"
    assert complete_path(f"{tmp_path}/nothing") is None
    assert complete_path("rows") is None


def test_the_cache_tells_what_it_holds_by_name(tmp_path: Path) -> None:
    for age, folder in enumerate(["models--a--one", "models--a--b--two", "datasets--a--rows", "models--a--empty"]):
        (tmp_path / folder / "snapshots").mkdir(parents=True)
        if "empty" not in folder:
            (tmp_path / folder / "snapshots" / "0").mkdir()
        os.utime(tmp_path / folder, (age, age))
    assert cached_names("models", tmp_path) == ["a/b--two", "a/one"]
    assert cached_names("datasets", tmp_path) == ["a/rows"]
    assert cached_names("models", tmp_path / "absent") == []


def test_the_hub_is_asked_for_names_that_begin_so(hub: LoopbackHub) -> None:
    hub.add("model", "somebody/tiny-model", {"config.json": b"{}"})
    hub.add("model", "somebody/other", {"config.json": b"{}"})
    assert Hub(hub.url).names("models", "somebody/ti") == ["somebody/tiny-model"]


@pytest.mark.parametrize(
    ("text", "name", "revision"),
    [("a/b@v1", "a/b", "v1"), ("a/b", "a/b", None), ("a/b@", "a/b@", None), ("@x", "@x", None)],
)
def test_a_revision_comes_behind_the_name(text: str, name: str, revision: str | None) -> None:
    assert split_revision(text) == (name, revision)


def test_a_folder_with_an_at_sign_has_no_revision(tmp_path: Path) -> None:
    (tmp_path / "model@home").mkdir()
    assert split_revision(str(tmp_path / "model@home")) == (str(tmp_path / "model@home"), None)
