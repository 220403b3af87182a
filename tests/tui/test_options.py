"""The options by keyboard, with a few fields in place of TRL's."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import DataTable

from kerneltui.assess import assess
from kerneltui.plan.fields import Field
from kerneltui.tui.app import KerneltuiApp
from kerneltui.tui.steps.options import OptionsStep
from tests.tui.test_hostile_names import Asked, situation
from tests.tui.watching import shown, until, until_shown

FIELDS = (
    Field(name="use_peft", owner="ModelConfig", type="bool", kinds=("bool",), default=False),
    Field(name="lora_r", owner="ModelConfig", type="int", kinds=("int",), default=16),
    Field(name="lora_target_modules", owner="ModelConfig", type="list", kinds=("list",), items="str", optional=True),
    Field(name="an_unknown_field", owner="SFTConfig", type="str", kinds=("str",), help="Does something new. More."),
)


async def test_lora_is_turned_on_with_its_layers_and_idle_fields_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kerneltui.tui.screens.home.HomeScreen._start_reading", lambda _: None)
    monkeypatch.setattr(OptionsStep, "read", lambda self, trainer: self.post_message(self.FieldsRead(trainer, FIELDS)))
    found = situation(tmp_path)
    app = KerneltuiApp(Path(sys.executable), tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen: Any = Asked(found.plan, at=5)
        app.push_screen(screen)
        await until(pilot, lambda: app.screen is screen and bool(screen.query("#options")))
        screen.set_state(server=found.server, situation=found, assessment=assess(found), busy=None)
        await until_shown(pilot, "no effect: LoRA is off", "an unknown field", "Does something new")
        table: DataTable[Any] = screen.query_one("#options", DataTable)
        assert table.cursor_row == 0
        table.move_cursor(row=table.get_row_index("use_peft"))
        await pilot.press("space")
        await until(pilot, lambda: "use_peft: true" in (screen.state.plan.config or ""))
        assert "lora_target_modules: [all-linear]" in (screen.state.plan.config or "")
        await until(pilot, lambda: "no effect: LoRA is off" not in shown(pilot))
        await pilot.press("slash", *"new", "enter")
        await until(pilot, lambda: table.row_count == 1 and str(table.get_row_at(0)[1]) == "an_unknown_field")
