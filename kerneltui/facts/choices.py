"""What a data set offers to choose from: its configurations and the splits of one of them."""

from __future__ import annotations

from pathlib import Path

from kerneltui.facts.dataset import refusal
from kerneltui.facts.local_data import check_local_data
from kerneltui.interpreter import Asker, ProgressCallback
from kerneltui.records import Record, from_builtins


class Choices(Record):
    """The configurations of a data set, `default` the one that is read where none is named (None: one must be named).

    `splits` are those of `configuration`, empty where none was chosen and there is no default.
    """

    configurations: tuple[str, ...]
    default: str | None = None
    configuration: str | None = None
    splits: tuple[str, ...] = ()


def read_choices(
    asker: Asker,
    name: str,
    cwd: Path,
    *,
    configuration: str | None = None,
    timeout: float = 120,
    on_progress: ProgressCallback | None = None,
) -> Choices:
    """Return what the data set `name` (a folder, or a name on the Hub) offers, with the splits of `configuration`.

    Raises as `kerneltui.facts.dataset.read_dataset`.
    """
    check_local_data({"dataset_name": name}, cwd)
    answer = asker.ask(
        "data.choices",
        path=name,
        cwd=str(cwd),
        configuration=configuration,
        timeout=timeout,
        on_progress=on_progress,
    )
    if "error" in answer:
        raise refusal(name, [{"path": name}], {**answer, "part": 0})
    return from_builtins(answer, Choices, f"the choices of {name}")
