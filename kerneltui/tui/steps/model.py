"""Step 2: the model and the data."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Input

from kerneltui import demo
from kerneltui.errors import KerneltuiError
from kerneltui.facts.cached_names import Kind
from kerneltui.facts.dataset import DatasetFacts, dataset_name
from kerneltui.facts.model import ModelFacts
from kerneltui.plan.sources import data_values
from kerneltui.text import plain_line
from kerneltui.tui.keys import MODEL_STEP, bindings
from kerneltui.tui.screens.data import DataScreen
from kerneltui.tui.screens.data_sources import DataChange
from kerneltui.tui.steps.step import Step, WizardState
from kerneltui.tui.suggest import NameSuggester
from kerneltui.tui.widgets.lines import Note
from kerneltui.tui.widgets.plan_card import plan_values, short

_KNOWN: dict[Kind, tuple[str, ...]] = {
    "models": (str(demo.model_path()), "Qwen/Qwen3-0.6B", "Qwen/Qwen2.5-0.5B-Instruct", "meta-llama/Llama-3.2-1B"),
    "datasets": (
        *(str(demo.data_path("sft")), str(demo.data_path("dpo"))),
        *("trl-lib/Capybara", "trl-lib/ultrafeedback_binarized"),
    ),
}


class ModelStep(Step):
    """Two lines to type in; below them what the model's configuration and the data's first rows say."""

    NAME = "Model, data"
    ENTER = "Read, go on"
    PURPOSE = (
        "Name the model and the data: a Hub name such as Qwen/Qwen3-0.6B and trl-lib/Capybara, or a path of this"
        " server; a revision of the model comes behind an @. The right arrow takes what is suggested: what you used"
        " last, what the cache holds, what the Hub has. Enter reads what you typed, and goes on when both lines are"
        " read; tab changes the line. Letters go into the lines here: ctrl+f applies a fix, f1 shows this help."
    )

    KEYS = MODEL_STEP
    BINDINGS = bindings(MODEL_STEP)

    def __init__(self) -> None:
        super().__init__(id="step-model")
        self._filled = False
        self._state: WizardState | None = None

    def compose(self) -> ComposeResult:
        """Lay out the two lines over the facts."""
        yield Note("model", classes="label")
        yield Input(id="model", placeholder="owner/name on the Hub, or a folder", suggester=self._names("models"))
        yield Note("", id="model-facts", classes="facts")
        yield Note("data", classes="label")
        yield Input(id="data", placeholder="owner/name on the Hub, or a file", suggester=self._names("datasets"))
        yield Note("", id="data-facts", classes="facts")
        yield Note("", id="model-why", classes="why")

    def _names(self, kind: Kind) -> NameSuggester:
        """Return what completes the names of models or of data sets."""
        return NameSuggester(
            lambda: (*self.session.known_names(kind), *_KNOWN[kind]), lambda start: self.session.hub.names(kind, start)
        )

    def open(self) -> None:
        """Focus the first line."""
        self.query_one("#model").focus()

    def show(self, state: WizardState) -> None:
        """Show the answers and what is known of them; the first time, take what is recommended for both."""
        self._state = state
        if not self._filled:
            self._fill(state)
        self.query_one("#model-facts", Note).update(_model_line(state))
        self.query_one("#data-facts", Note).update(_data_lines(state, self.app.size.width - 6))
        self._explain()

    @on(Input.Changed)
    def _explain(self) -> None:
        """Say what Enter does."""
        words = "Enter reads what you typed."
        if self._typed() == self._named():
            start = self._state.start if self._state else None
            words = "Enter goes on; to choose another model or other data, type over them."
            if start and start.values.get("model_name_or_path") == self._typed()[0]:
                words = f"{start.why} {words}"
        self.query_one("#model-why", Note).update(Content(words))

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if event.input.id == "model" and not self._typed()[1]:
            self.query_one("#data").focus()
        else:
            self.take()

    def take(self) -> None:
        """Put what was typed into the plan, so that it is read; go on when it is there already."""
        model, data = self._typed()
        if not model or not data:
            self.notify("Name a model and the data.", markup=False)
        elif self._state and (model, data) == self._named():
            self.post_message(self.Chosen())
        elif self._state:
            self._choose(self._state, model, data)

    def action_data(self) -> None:
        """Show the rows of the plan's data; what is changed there is taken into the plan."""
        state = self._state
        values = plan_values(state) if state else {}
        if state is None or not dataset_name(values):
            self.notify("Name the data first, and Enter.", markup=False)
            return
        if state.situation and state.situation.plan == state.plan:
            values = state.situation.settings.values
        self.session.use(state.plan.environment)
        self.app.push_screen(DataScreen(values, Path(state.plan.cwd), state.plan.trainer), self._data_changed)

    def _data_changed(self, change: DataChange | None) -> None:
        if change is not None:
            self.post_message(self.Chosen(values=change.values, remove=change.remove, onward=False))

    def _fill(self, state: WizardState) -> None:
        """Show the plan's answers, else the recommended ones, once these are known; lines typed in stay as they are."""
        named = plan_values(state)
        found = named if named.get("model_name_or_path") else state.start.values if state.start else None
        if found is None:
            return
        self._filled = True
        model, data = self.query_one("#model", Input), self.query_one("#data", Input)
        model.value = model.value or plain_line(_with_revision(found))
        data.value = data.value or plain_line(glob_to_path(dataset_name(found) or ""))
        if found is not named:
            self._choose(state, model.value, data.value)

    def _choose(self, state: WizardState, model: str, data: str) -> None:
        plan = state.plan
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
        if data == self._named()[1]:  # as it is written there: a file may name more than a line can say
            values, remove = {}, ()
        if model != self._named()[0]:
            name, revision = split_revision(model)
            values = {"model_name_or_path": name, **({"model_revision": revision} if revision else {}), **values}
            remove = remove if revision else (*remove, "model_revision")
        self.post_message(self.Chosen(values=values, remove=remove, launch=launch, onward=False))

    def _typed(self) -> tuple[str, str]:
        """Return the model and the data as they stand in the lines."""
        return self.query_one("#model", Input).value.strip(), self.query_one("#data", Input).value.strip()

    def _named(self) -> tuple[str, str]:
        """Return the model and the data of the plan, as the lines show them."""
        values = plan_values(self._state) if self._state else {}
        data = glob_to_path(dataset_name(values) or "")
        return plain_line(_with_revision(values)), plain_line(data)


def split_revision(text: str) -> tuple[str, str | None]:
    """Return the name of a model and its revision, written owner/name@revision; a path has none."""
    name, at, revision = text.rpartition("@")
    return (name, revision) if at and name and revision and not Path(text).expanduser().exists() else (text, None)


def _with_revision(values: Mapping[str, Any]) -> str:
    name, revision = str(values.get("model_name_or_path") or ""), values.get("model_revision")
    return f"{name}@{revision}" if name and revision and revision != "main" else name


def _model_line(state: WizardState) -> Content:
    """Return what is known of the plan's model; nothing while none is named."""
    named, situation = plan_values(state).get("model_name_or_path"), state.situation
    if not named or (state.error and not state.busy):  # the findings say what is wrong
        return Content("")
    if situation is None or situation.settings.get("model_name_or_path") != named:
        return Content.styled("… reading its configuration", "$secondary")
    if situation.model is None:
        return Content.styled(f"✖ {short(situation.unknown.get('model'), 200)}", "$error")
    return _model_facts(situation.model)


def _data_lines(state: WizardState, width: int) -> Content:
    """Return what is known of the plan's data, a row in so many cells; nothing while none is named."""
    named, situation = dataset_name(plan_values(state)), state.situation
    if not named or (state.error and not state.busy):
        return Content("")
    if situation is not None and dataset_name(situation.settings.values) == named:
        if situation.data is not None:
            return _data_facts(situation.data, width)
        if reason := situation.unknown.get("data"):
            return Content.styled(f"✖ {' '.join(map(plain_line, reason.splitlines()))}", "$error")
    return Content.styled("… reading the first rows", "$secondary")


def glob_to_path(pattern: str) -> str:
    """Return the path that an escaped pattern stands for, or the pattern itself."""
    plain_path = pattern.replace("[[]", "[").replace("[*]", "*").replace("[?]", "?")
    return plain_path if Path(plain_path).exists() else pattern


# A chat model comes with a template for conversations; most base models have none.
_TEMPLATE = {True: "chat template", False: "no chat template: a base model?", None: None}


def in_billions(count: int) -> str:
    """Return a number of parameters as people say it: 0.6B, 135M."""
    return f"{count / 1e9:.3g}B" if count >= 5e8 else f"{count / 1e6:.3g}M"


def _model_facts(model: ModelFacts) -> Content:
    dims = ", ".join(str(dim) for dim in model.head_dims)
    parts = [
        model.architectures[0] if model.architectures else model.model_type,
        f"{in_billions(model.parameters)} parameters" if model.parameters else None,
        f"{model.layers} layers" if model.layers else None,
        f"{model.heads} heads, {model.kv_heads} kv" if model.heads else None,
        f"dim {dims}" if dims else None,
        f"window {model.window}" if model.window else None,
        f"softcap {model.softcap:g}" if model.softcap else None,
        model.dtype,
        f"context {model.context}" if model.context else None,
        _TEMPLATE[model.chat_template],
    ]
    return Content.assemble(("✔ ", "$success"), plain_line(" · ".join(part for part in parts if part)))


def _data_facts(data: DatasetFacts, width: int) -> Content:
    columns = ", ".join(f"{column.name} ({column.type})" for column in data.columns)
    sign = ("✔ ", "$success") if data.format else ("▲ ", "$warning")
    lines = [Content.assemble(sign, plain_line(f"{data.kind} · {columns}"))]
    for row in data.rows[:3]:
        first = "  ".join(f"{name}: {value}" for name, value in row.items())
        lines.append(Content.styled(f"  {short(first, width)}", "$secondary"))
    return Content("\n").join(lines)
