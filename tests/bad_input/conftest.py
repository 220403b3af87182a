"""The command in this process, with one Hub and one asker for all that needs the training packages."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kerneltui import cli
from kerneltui.facts.hub import Hub
from kerneltui.interpreter import Asker, find_interpreter
from tests.bad_input.command import SERVER, Command, Said, without_plan
from tests.hub import LoopbackHub


@pytest.fixture(scope="package")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LoopbackHub, Asker]]:
    """Return one Hub and one asker that uses it."""
    with (
        LoopbackHub(tmp_path_factory.mktemp("huggingface")) as hub,
        Asker(find_interpreter(), environment=hub.environment()) as asker,
    ):
        yield hub, asker


@pytest.fixture
def hub_of_asker(shared: tuple[LoopbackHub, Asker]) -> Iterator[LoopbackHub]:
    """Return the Hub that `kerneltui` uses, with nothing wrong with it."""
    yield shared[0]
    shared[0].heal()


@pytest.fixture
def kerneltui(
    shared: tuple[LoopbackHub, Asker], hub_of_asker: LoopbackHub, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> Command:  # fmt: skip
    """Return the command itself, in this process, where a server is recorded and the asker has its imports done."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("kerneltui.interpreter.Asker", lambda *_, **__: contextlib.nullcontext(shared[1]))
    monkeypatch.setattr("kerneltui.facts.hub.Hub", lambda *_, **__: Hub(hub_of_asker.url))
    monkeypatch.setattr("kerneltui.facts.read_server.read_server", lambda *_, **__: SERVER)

    def run(*arguments: str) -> Said:
        monkeypatch.setattr(sys, "argv", ["kerneltui", *arguments])
        code: Any = 0
        try:
            cli.main()
        except SystemExit as ended:
            code = ended.code or 0
        out, err = capsys.readouterr()
        return Said(code, out, without_plan(err))

    return run
