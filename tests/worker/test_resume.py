from __future__ import annotations

import importlib.util
import inspect
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kerneltui.worker.resume import hand_on


class Trainer:
    """As transformers has it, without training."""

    def __init__(self, configured: str | None) -> None:
        self.args = SimpleNamespace(resume_from_checkpoint=configured)

    def train(self, resume_from_checkpoint: Any = None, trial: Any = None) -> tuple[Any, Any]:
        """Return what it was called with."""
        return resume_from_checkpoint, trial


@pytest.mark.parametrize(
    ("configured", "arguments", "taken"),
    [("/a", (), "/a"), ("/a", ("/b",), "/b"), (None, (), None), ("/a", (None, 7), "/a"), (None, (True,), True)],
)
def test_a_bare_call_goes_on_from_the_configured_checkpoint(
    monkeypatch: pytest.MonkeyPatch, configured: str | None, arguments: tuple[Any, ...], taken: Any
) -> None:
    monkeypatch.setattr(Trainer, "train", Trainer.train)  # so that the class is as before afterwards
    hand_on(Trainer)
    assert Trainer(configured).train(*arguments) == (taken, *(arguments[1:] or (None,)))
    assert list(inspect.signature(Trainer.train).parameters)[:2] == ["self", "resume_from_checkpoint"]


def test_the_installed_trainer_takes_the_checkpoint_first() -> None:
    spec = importlib.util.find_spec("transformers")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    source = Path(spec.submodule_search_locations[0], "trainer.py").read_text()
    assert "    def train(\n        self,\n        resume_from_checkpoint: " in source
