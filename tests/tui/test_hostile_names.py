"""Names and rows that try to break home and the wizard: markup, escape sequences, wide characters, joined emoji."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from textual.pilot import Pilot
from textual.widgets import DataTable

from kerneltui.advice.verdict import Verdict
from kerneltui.assess import assess
from kerneltui.facts.dataset import Column, DatasetFacts
from kerneltui.tui.app import KerneltuiApp
from kerneltui.tui.screens.wizard import WizardScreen
from kerneltui.tui.steps.kernel import KernelStep
from kerneltui.tui.steps.revision import RevisionStep
from tests.advice.situations import GQA, H200, make_server, make_situation
from tests.tui import fake_runs
from tests.tui.watching import rows, shown, until, until_shown

SIZES = [(80, 24), (120, 40)]
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
NAME = "某人/[red]模型[/]👩\u200d💻❤\ufe0f-\x1b[31m[b[/red]\x1b]0;title\x07\u202e核"
KERNEL = "kernels-community/[/red]核👩\u200d💻[b"
BRANCHES = ("v2", "[/red]分支🚀", "[b", "\x1b[2Jmain", "a\u200db" * 30)


def assert_whole(pilot: Pilot[Any]) -> None:
    """Every row has the screen's width in cells, borders and columns are aligned, and nothing controls a terminal."""
    drawn, width = rows(pilot), pilot.app.size.width
    assert not CONTROL.search("".join(drawn))
    assert {cell_len(row) for row in drawn} == {width}
    assert all(row[-1] == "│" for row in drawn if row.startswith("│"))
    for table in pilot.app.screen.query(DataTable):
        for column in table.ordered_columns:
            assert column.content_width == max(
                [cell_len(str(column.label)), *(cell_len(str(table.get_cell(row, column.key))) for row in table.rows)]
            )


@pytest.mark.parametrize("size", SIZES)
async def test_home(tmp_path: Path, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kerneltui.tui.screens.home.HomeScreen.read_server", lambda *_, **__: None)
    kept = [fake_runs.hostile(tmp_path), fake_runs.FakeRun(tmp_path, "Ωmega_1", model=NAME)]
    app = KerneltuiApp(Path(sys.executable), tmp_path)
    async with app.run_test(size=size) as pilot:
        await until_shown(pilot, "平静的水獭", "Ωmega_1")
        assert_whole(pilot)
        await pilot.press("down", "question_mark")
        assert_whole(pilot)
    assert kept


class Asked(WizardScreen):
    """A wizard that finds nothing out: the tests tell it what there is."""

    CSS_PATH = str(Path(sys.modules[WizardScreen.__module__].__file__ or "").with_name("wizard.tcss"))

    def read_server(self, again: bool = False) -> None:  # type: ignore[override]
        """Ask nothing."""

    def judge(self) -> None:  # type: ignore[override]
        """Ask nothing."""


def situation(folder: Path) -> Any:
    """Return a situation in which every name from outside is hostile."""
    given = {
        "model_name_or_path": NAME,
        "datasets": [{"path": "json", "data_files": f"{folder}/{NAME}.jsonl"}],
        "attn_implementation": f"{KERNEL}@v2",
    }
    data = DatasetFacts(
        name=NAME, split="train", columns=(Column(name="[/red]文", type="text"), Column(name="[b", type="null")),
        rows=({"[/red]文": "\x1b[31m[bold]红👩\u200d💻" * 40, "[b": None},),
    )  # fmt: skip
    return make_situation(server=make_server(H200), given=given, model=GQA, data=data, unknown={"trust": NAME})


@pytest.mark.parametrize("size", SIZES)
async def test_the_wizard(tmp_path: Path, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kerneltui.tui.screens.home.HomeScreen._start_reading", lambda _: None)
    monkeypatch.setattr(KernelStep, "judge_all", lambda *_: None)
    monkeypatch.setattr(RevisionStep, "find", lambda *_: None)
    found = situation(tmp_path)
    app = KerneltuiApp(Path(sys.executable), tmp_path)
    async with app.run_test(size=size) as pilot:
        screen = Asked(found.plan, at=0)
        app.push_screen(screen)
        await until(pilot, lambda: app.screen is screen and bool(screen.query("#options")))
        await pilot.pause()
        screen.set_state(server=found.server, situation=found, assessment=assess(found), busy=None)
        for number in range(7):
            screen.go(number)
            await pilot.pause()
            if isinstance(screen.step, KernelStep):
                names = ["sdpa", f"{KERNEL}@v2"]
                screen.step.post_message(KernelStep.Found(screen.step._basis or (), names))
                for name in names:
                    verdict = Verdict(kind="care", reason=f"{NAME} {name}")
                    screen.step.post_message(KernelStep.Judged(name, found, verdict))
                screen.step.post_message(KernelStep.JudgedAll())
            if isinstance(screen.step, RevisionStep):
                judged = {name: (found, Verdict(kind="refused", reason=NAME)) for name in BRANCHES}
                screen.step.post_message(RevisionStep.Found(KERNEL, judged))
            await pilot.pause()
            assert_whole(pilot)
            await pilot.press("down", "end")
            assert_whole(pilot)
            for key in ("f1", "escape", "ctrl+d", "escape"):
                await pilot.press(key)
                assert_whole(pilot)
        screen.set_state(error=f"{NAME}\n{json.dumps(NAME)}")
        await pilot.pause()
        assert "模型" in shown(pilot)
        assert_whole(pilot)
