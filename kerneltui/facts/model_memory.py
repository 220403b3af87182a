"""What a model's own code keeps in memory in a training step, counted by running it on tensors without data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kerneltui.interpreter import Asker
from kerneltui.records import Record, from_builtins


class Count(Record):
    """The bytes of activations of the first `layers` layers for one row of `tokens` tokens.

    `kept` is what the forward pass leaves for the backward pass, `forward` and `backward` the peaks within them.
    """

    layers: int
    tokens: int
    kept: int
    forward: int
    backward: int


class ModelMemory(Record):
    """The counts of a model, for one dtype, kind of attention and way of training.

    `parameters` are all of the model without adapters, shared ones once; `embedding` those of the input embedding,
    `head` those of the output projection, which is the same tensor where `tied`; `adapters` those of LoRA. `counts` is
    empty where the code could not be run that way, and `error` says why.
    """

    parameters: int
    embedding: int
    head: int
    tied: bool
    adapters: int = 0
    counts: tuple[Count, ...] = ()
    error: str | None = None


def read_model_memory(asker: Asker, cwd: Path, *, path: str, **asked: Any) -> tuple[ModelMemory | None, str | None]:
    """Return the counts of a model, or None with the reason.

    `asked` are the other arguments of the worker's `memory`.
    """
    answer = asker.ask("transformers.memory", path=path, cwd=str(cwd), **asked)
    if "parameters" not in answer:
        return None, str(answer.get("error"))
    return from_builtins(answer, ModelMemory, f"the memory of {path}"), None
