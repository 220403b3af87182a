"""Step 6: the options: those that matter in groups, and every other field of TRL by search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.content import Content
from textual.message import Message
from textual.widgets import DataTable, Input

from kerneltui.advice.options import adapter_values, recommend_options
from kerneltui.advice.recommend import Recommendation
from kerneltui.advice.situation import Situation
from kerneltui.errors import KerneltuiError
from kerneltui.plan.effects import without_effect
from kerneltui.plan.fields import Field, read_fields
from kerneltui.plan.groups import find_fields, groups, other_fields
from kerneltui.plan.values import parse_value, value_text
from kerneltui.text import cut_middle, plain_line
from kerneltui.tui.keys import OPTIONS_STEP, bindings
from kerneltui.tui.steps.step import Step, WizardState
from kerneltui.tui.widgets.lines import Note
from kerneltui.tui.widgets.plan_card import plan_values
from kerneltui.tui.widgets.tables import show_rows

_HEADINGS = ("", "option", "value", "what it does")
# The room for names and values, in cells, so that the help has some too on a narrow terminal.
_LABEL, _VALUE = 26, 20


class OptionsStep(Step):
    """A table of fields: space edits the one under the cursor, slash finds any field of TRL, Enter goes on."""

    NAME = "Options"
    ENTER = "Take them"
    PURPOSE = (
        "The options that matter come first, in groups, and every other field of TRL behind them; / finds any by its"
        " name or its help. Space edits, delete goes back to TRL's default. What you set is marked ●, what is"
        " recommended ○; a field that does nothing with the present choices says so."
    )
    KEYS = OPTIONS_STEP
    BINDINGS = bindings(OPTIONS_STEP)

    @dataclass
    class FieldsRead(Message):
        """TRL told its fields for a trainer."""

        trainer: str
        fields: tuple[Field, ...]

    @dataclass
    class Failed(Message):
        """TRL did not tell."""

        error: KerneltuiError

    def __init__(self) -> None:
        super().__init__(id="step-options")
        self._trainer: str | None = None
        self._fields: dict[str, Field] = {}
        self._values: dict[str, Any] = {}
        self._situation: Situation | None = None
        self._recommended: Recommendation | None = None
        self._found: str = ""
        self._editing: str | None = None
        self._rows: list[str] = []
        self._idle: dict[str, str] = {}

    def compose(self) -> ComposeResult:
        """Lay out the table over the line to type in."""
        table: DataTable[Any] = DataTable(id="options", cursor_type="row")
        yield table
        yield Note("", id="options-why", classes="why")
        entry = Input(id="option-input")
        entry.display = False
        yield entry

    def open(self) -> None:
        """Focus the table."""
        self.query_one("#options").focus()

    def show(self, state: WizardState) -> None:
        """Show the options with the plan's values; ask TRL for its fields when the trainer is another."""
        self._values = plan_values(state)
        self._situation = state.situation
        if state.situation is None:
            self._say(state.busy or state.error or "")
            return
        self._recommended = recommend_options(state.situation)
        if self._trainer != state.plan.trainer and self.active:
            self._trainer = state.plan.trainer
            self.read(state.plan.trainer)
        self._show_rows()

    @work(thread=True, exclusive=True, group="fields", description="asking TRL for its options")
    def read(self, trainer: str) -> None:
        """Ask TRL for the trainer's fields."""
        try:
            fields = read_fields(self.session.asker, trainer)
        except KerneltuiError as error:
            self.post_message(self.Failed(error))
            return
        self.post_message(self.FieldsRead(trainer, fields))

    @on(FieldsRead)
    def _fields_read(self, message: FieldsRead) -> None:
        if message.trainer == self._trainer:
            self._fields = {field.name: field for field in message.fields}
            self._show_rows()

    @on(Failed)
    def _failed(self, message: Failed) -> None:
        self._trainer = None
        self._say(f"✖ {message.error.title}")

    def take(self) -> None:
        """Go on with the recommended values for what the person did not set."""
        wanted = dict(self._recommended.values) if self._recommended else {}
        self.post_message(self.Chosen(values={k: v for k, v in wanted.items() if k not in self._values}))

    def on_data_table_row_selected(self) -> None:
        """Enter goes on; space edits."""
        self.take()

    def on_data_table_row_highlighted(self) -> None:
        """Explain the option under the cursor."""
        if self._editing is None:
            self._explain()

    def action_edit(self) -> None:
        """Type a value for the option under the cursor; a yes-or-no option is turned over."""
        field = self._current()
        if field is None:
            return
        if field.type == "bool":
            now = self._shown_value(field.name)
            values = {field.name: not now}
            if field.name == "use_peft" and not now:  # with the layers that it goes on, where none are named
                values = {
                    k: v for k, v in adapter_values(self._trainer or "").items() if k not in self._values
                } | values
            self.post_message(self.Chosen(values=values, onward=False))
            return
        self._editing = field.name
        self._type(value_text(self._shown_value(field.name)), f"{field.name} takes {field.takes}")

    def action_find(self) -> None:
        """Find a field by its name or its help."""
        self._editing = "/"
        self._type(self._found, "a part of a name or of its help")

    def action_reset(self) -> None:
        """Go back to TRL's default."""
        field = self._current()
        if field is not None and field.name in self._values:
            self.post_message(self.Chosen(remove=(field.name,), onward=False))

    @on(Input.Submitted, "#option-input")
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if self._editing == "/":
            self._found = event.value.strip()
            self._show_rows()
        elif self._editing is not None:
            try:
                value = parse_value(self._fields[self._editing], event.value)
            except KerneltuiError as error:
                self._say(f"✖ {' '.join(str(error).splitlines())}")
                return
            self.post_message(self.Chosen(values={self._editing: value}, onward=False))
        self._end_typing()

    def on_key(self, event: Any) -> None:
        """Escape leaves the line to type in, not the step."""
        if self._editing is not None and event.key == "escape":
            event.stop()
            event.prevent_default()
            self._end_typing()

    def _type(self, value: str, placeholder: str) -> None:
        entry = self.query_one("#option-input", Input)
        entry.value, entry.placeholder, entry.display = plain_line(value), placeholder, True
        entry.focus()
        self._say(placeholder)

    def _end_typing(self) -> None:
        self._editing = None
        self.query_one("#option-input").display = False
        self.query_one("#options").focus()
        self._explain()

    def _current(self) -> Field | None:
        table = self.query_one("#options", DataTable)
        if not 0 <= table.cursor_row < len(self._rows):
            return None
        return self._fields.get(self._rows[table.cursor_row])

    def _shown_value(self, name: str) -> Any:
        if name in self._values:
            return self._values[name]
        if self._recommended and name in self._recommended.values:
            return self._recommended.values[name]
        return self._fields[name].default

    def _show_rows(self) -> None:
        fields, found = tuple(self._fields.values()), self._found
        values = {field.name: self._shown_value(field.name) for field in fields}
        self._idle = {it.name: why for it in fields if (why := without_effect(it, values)) is not None}
        rows: dict[str, tuple[str | Text | None, ...]] = {}
        for field in find_fields(fields, found) if found else ():
            rows[field.name] = self._row(field.name, field.name, field.help.split(". ")[0])
        # Before TRL has told its fields no heading may stand there: the cursor would stay on it.
        trainer = self._trainer if fields else None
        shown = (*groups(trainer, fields), other_fields(trainer, fields)) if trainer else ()
        for group in () if found else shown:
            rows[f" {group.title}"] = ("", Text(group.title, style="bold"), "", Text(group.help, style="dim"))
            for entry in group.entries:
                rows[entry.name] = self._row(entry.name, entry.label, entry.help)
        self._rows = list(rows)
        show_rows(self.query_one("#options", DataTable), _HEADINGS, rows)
        self._explain()

    def _row(self, name: str, label: str, help_text: str) -> tuple[str | Text | None, ...]:
        value, label = self._shown_value(name), cut_middle(label, _LABEL)
        mark = "●" if name in self._values else "○" if self._recommended and name in self._recommended.values else ""
        shown = Text(cut_middle("null" if value is None else value_text(value), _VALUE), style="bold" if mark else "")
        if name in self._idle:
            help_text = f"no effect: {self._idle[name]}"
            return (mark, Text(label, style="dim"), Text(shown.plain, style="dim"), Text(help_text, style="dim"))
        return (mark, label, shown, Text(help_text, style="dim"))

    def _explain(self) -> None:
        field = self._current()
        if not self._fields:
            self._say("asking TRL for its options …")
        elif field is None:
            self._say(self._recommended.why if self._recommended else "")
        else:
            idle = f" No effect: {self._idle[field.name]}." if field.name in self._idle else ""
            named = f" TRL names {', '.join(field.suggestions)}." if field.suggestions else ""
            if layers := self._layers(field.name):
                named = f" This model has {layers}."
            default, told = value_text(field.default) or "null", field.help.partition(". ")[0]
            self._say(f"{field.name} takes {field.takes}; TRL's default is {default}.{named}{idle} {told}")

    def _layers(self, name: str) -> str:
        """Return the names in this model that a field of LoRA takes, "" for another field."""
        model = self._situation.model if self._situation else None
        if model is None or name not in ("lora_target_modules", "lora_target_parameters"):
            return ""
        return ", ".join(model.linear if name == "lora_target_modules" else model.experts)

    def _say(self, text: str) -> None:
        self.query_one("#options-why", Note).update(Content(text))
