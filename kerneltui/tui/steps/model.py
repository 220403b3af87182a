"""Step 2: the model and the data."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textual import on, work
from textual.app import ComposeResult
from textual.content import Content
from textual.message import Message
from textual.suggester import SuggestFromList
from textual.widgets import Input, Static

from kerneltui import demo
from kerneltui.advice.recommend import recommend_model_and_data
from kerneltui.errors import KerneltuiError
from kerneltui.facts.dataset import DatasetFacts, dataset_name, read_dataset
from kerneltui.facts.model import ModelFacts
from kerneltui.plan.sources import data_values
from kerneltui.text import plain_line
from kerneltui.tui.steps.step import Step, WizardState
from kerneltui.tui.widgets.plan_card import plan_values, short


class ModelStep(Step):
    """Two lines to type in; below them what the model's configuration and the data's first rows say."""

    NAME = "Model, data"
    PURPOSE = (
        "Name the model and the data: a Hub name such as Qwen/Qwen3-0.6B and trl-lib/Capybara, or a path of this"
        " server. Enter goes to the next line, then on. Ctrl+f applies a fix, f1 shows this help."
    )

    @dataclass
    class DataRead(Message):
        """The data's first rows were read."""

        key: tuple[Any, ...]
        facts: DatasetFacts | None
        error: str | None = None

    def __init__(self) -> None:
        super().__init__(id="step-model")
        self._filled = False
        self._key: tuple[Any, ...] | None = None
        self._data: DatasetFacts | None = None
        self._error: str | None = None
        self._state: WizardState | None = None

    def compose(self) -> ComposeResult:
        """Lay out the two lines over the facts."""
        yield Static("model", classes="label")
        known = [str(demo.model_path()), "Qwen/Qwen3-0.6B", "Qwen/Qwen2.5-0.5B-Instruct", "meta-llama/Llama-3.2-1B"]
        yield Input(id="model", placeholder="owner/name on the Hub, or a folder", suggester=SuggestFromList(known))
        yield Static("", id="model-facts", classes="facts")
        yield Static("data", classes="label")
        sets = [
            str(demo.data_path("sft")),
            str(demo.data_path("dpo")),
            "trl-lib/Capybara",
            "trl-lib/ultrafeedback_binarized",
        ]
        yield Input(id="data", placeholder="owner/name on the Hub, or a file", suggester=SuggestFromList(sets))
        yield Static("", id="data-facts", classes="facts")
        yield Static("", id="model-why", classes="why")

    def open(self) -> None:
        """Focus the first line."""
        self.query_one("#model").focus()

    def show(self, state: WizardState) -> None:
        """Show the answers and what is known of them; read the data when they changed."""
        self._state = state
        values = plan_values(state)
        if not self._filled:
            self._filled = True
            found = recommend_model_and_data(*self.session.recent(), Path(state.plan.cwd))
            shown = {**found.values, **values} if values.get("model_name_or_path") else found.values
            self.query_one("#model", Input).value = str(shown["model_name_or_path"])
            self.query_one("#data", Input).value = glob_to_path(dataset_name(shown) or "")
            why = "" if values.get("model_name_or_path") else f"{found.why} Type your own over them."
            self.query_one("#model-why", Static).update(Content(why))
        situation = state.situation
        named = values.get("model_name_or_path")
        if situation is not None and named and situation.settings.get("model_name_or_path") == named:
            told = situation.unknown.get("model")
            facts = (
                _model_facts(situation.model) if situation.model else Content.styled(f"✖ {short(told, 200)}", "$error")
            )
            self.query_one("#model-facts", Static).update(facts)
        key = (str(values.get("datasets")), values.get("dataset_name"), values.get("model_name_or_path"))
        if situation is not None and dataset_name(values) and key != self._key:
            self._key, self._data, self._error = key, None, None
            self.read(key, {**situation.settings.values, **values}, state.plan.trainer, Path(state.plan.cwd))
        self._show_data()

    @work(thread=True, exclusive=True, group="data", description="reading the data's first rows")
    def read(self, key: tuple[Any, ...], values: dict[str, Any], trainer: str, cwd: Path) -> None:
        """Read the first rows."""
        try:
            self.post_message(self.DataRead(key, read_dataset(self.session.asker, values, cwd, trainer, rows=3)))
        except KerneltuiError as error:
            self.post_message(self.DataRead(key, None, str(error)))

    @on(DataRead)
    def _data_read(self, message: DataRead) -> None:
        if message.key == self._key:
            self._data, self._error = message.facts, message.error
            self._show_data()

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if event.input.id == "model":
            self.query_one("#data").focus()
        else:
            self.take()

    def take(self) -> None:
        """Take both answers."""
        model = self.query_one("#model", Input).value.strip()
        data = self.query_one("#data", Input).value.strip()
        if not model or not data:
            self.notify("Name a model and the data.", markup=False)
            return
        assert self._state is not None
        plan = self._state.plan
        try:
            values, remove = data_values(data, Path(plan.cwd))
        except KerneltuiError as error:
            self.notify(f"{error.message} {error.hint}", title=error.title, severity="warning", markup=False)
            return
        launch = {}
        if model == str(demo.model_path()):  # its kernel ships with it, under a name that only this variable knows
            before = plan.launch.environment
            local = demo.local_kernels(before.get("LOCAL_KERNELS") or os.environ.get("LOCAL_KERNELS"))
            launch = {"environment": {**before, "LOCAL_KERNELS": local}}
        self.post_message(self.Chosen(values={"model_name_or_path": model, **values}, remove=remove, launch=launch))

    def _show_data(self) -> None:
        text = Content("")
        if self._error:
            text = Content.styled(f"✖ {' '.join(plain_line(line) for line in self._error.splitlines())}", "$error")
        elif self._data is not None:
            text = _data_facts(self._data)
        elif self._key is not None:
            text = Content.styled("reading the first rows …", "$secondary")
        self.query_one("#data-facts", Static).update(text)


def glob_to_path(pattern: str) -> str:
    """Return the path that an escaped pattern stands for, or the pattern itself."""
    plain_path = pattern.replace("[[]", "[").replace("[*]", "*").replace("[?]", "?")
    return plain_path if Path(plain_path).exists() else pattern


def _model_facts(model: ModelFacts) -> Content:
    dims = ", ".join(str(dim) for dim in model.head_dims)
    parts = [
        model.architectures[0] if model.architectures else model.model_type,
        f"{model.layers} layers" if model.layers else None,
        f"{model.heads} heads, {model.kv_heads} kv" if model.heads else None,
        f"dim {dims}" if dims else None,
        f"window {model.window}" if model.window else None,
        f"softcap {model.softcap:g}" if model.softcap else None,
        model.dtype,
        f"context {model.context}" if model.context else None,
    ]
    return Content.assemble(("✔ ", "$success"), plain_line(" · ".join(part for part in parts if part)))


def _data_facts(data: DatasetFacts) -> Content:
    columns = ", ".join(f"{column.name} ({column.type})" for column in data.columns)
    sign = ("✔ ", "$success") if data.format else ("▲ ", "$warning")
    lines = [Content.assemble(sign, plain_line(f"{data.kind} · {columns}"))]
    for row in data.rows[:3]:
        first = "  ".join(f"{name}: {value}" for name, value in row.items())
        lines.append(Content.styled(f"  {short(first, 140)}", "$secondary"))
    return Content("\n").join(lines)
