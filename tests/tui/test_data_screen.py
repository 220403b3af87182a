"""The data on screen: row by row, its sums, and a scan that replaces the estimates."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from textual.pilot import Pilot

from kerneltui.facts.server import Server
from kerneltui.records import read_record
from kerneltui.tui.app import KerneltuiApp
from kerneltui.tui.screens.data import DataScreen
from kerneltui.tui.screens.data_sources import DataChange
from kerneltui.tui.session import Session
from tests.tui.data_reader import DataReader
from tests.tui.watching import rows, shown, until, until_shown

H200 = read_record(Path(__file__).parents[1] / "servers" / "h200.json", Server)
SIZES = [(80, 24), (120, 40)]
VALUES: dict[str, Any] = {"dataset_name": "trl-lib/Capybara", "per_device_train_batch_size": 4}


def make_app(tmp_path: Path, reader: DataReader) -> KerneltuiApp:
    session = Session(Path(sys.executable), tmp_path / "runs", recorded=H200)  # home asks this machine for nothing
    session._reader = reader  # type: ignore[assignment]
    return KerneltuiApp(Path(sys.executable), tmp_path / "runs", session=session)


async def open_data(pilot: Pilot[str], **values: Any) -> DataScreen:
    screen = DataScreen({**VALUES, **values}, Path.cwd(), "sft")
    await pilot.pause()
    pilot.app.push_screen(screen)
    await until(pilot, lambda: pilot.app.screen is screen)
    return screen


@pytest.mark.parametrize("size", SIZES)
async def test_rows_are_shown_one_by_one_as_the_trainer_sees_them(tmp_path: Path, size: tuple[int, int]) -> None:
    app = make_app(tmp_path, DataReader())
    async with app.run_test(size=size) as pilot:
        await open_data(pilot)
        await until_shown(pilot, "Row 1 of 30 read", "6 tokens · 4 count for the loss · with </s>")
        lines = rows(pilot)
        assert any("▌ It is 2.</s>" in line for line in lines)
        assert any("<assistant>" in line and "▌" not in line.replace("│▌", "") for line in lines)
        await until_shown(pilot, "○ 3 times <pad>")
        await until_shown(pilot, "77 % go beyond max_length 12", "30 read of about 3,000", "would fill 100 % of 30")
        await pilot.press("right", "right")
        await until_shown(pilot, "Row 3 of 30 read")
        assert "\x1b[31m" not in shown(pilot)
        assert {cell_len(line) for line in rows(pilot)} == {size[0]}
        await pilot.press("left")
        await until_shown(pilot, "Row 2 of 30 read")
        await pilot.press(*["n"] * 28)
        await until_shown(pilot, "Row 30 of 30 read", "× and more")
        await pilot.press("n")
        await until_shown(pilot, "Row 30 of 30 read")


async def test_a_row_token_by_token_and_as_it_is_stored(tmp_path: Path) -> None:
    app = make_app(tmp_path, DataReader())
    async with app.run_test(size=(120, 40)) as pilot:
        await open_data(pilot)
        await until_shown(pilot, "Row 1 of 30 read")
        await pilot.press("t")
        await until(pilot, lambda: any(line.split()[1:5] == ["▌", "2", "0", "It"] for line in rows(pilot)))
        await pilot.press("n", "n", "t")
        await until_shown(pilot, "messages:", "user: [/red]")
        assert {cell_len(line) for line in rows(pilot)} == {120}


async def test_a_scan_replaces_the_estimates_and_can_be_stopped(tmp_path: Path) -> None:
    reader = DataReader(total=90)
    app = make_app(tmp_path, reader)
    async with app.run_test(size=(120, 40)) as pilot:
        await open_data(pilot)
        await until_shown(pilot, "30 read of about 90", "about 1,017 tokens")
        await pilot.press("s")
        await until_shown(pilot, "reading all rows")
        await pilot.press("s")
        await until(pilot, lambda: "reading all rows" not in shown(pilot))
        reader.go.set()
        await until(pilot, lambda: ("data.scan.end", {"scan": 1}) in reader.asked)
        assert "30 read of about 90" in shown(pilot)
        await pilot.press("s")
        await until_shown(pilot, "90, all of them read", "1,017 tokens")
        assert "about" not in shown(pilot)


async def test_data_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    refused = {"error_type": "DatasetNotFoundError", "error": "No [/red] data", "status": 404, "part": 0}
    app = make_app(tmp_path, DataReader(preview=refused))
    async with app.run_test(size=(80, 24)) as pilot:
        await open_data(pilot)
        await until_shown(pilot, "✖ No data set trl-lib/Capybara on the Hub", "[/red]", "hf auth login")
        await pilot.press("s", "n", "t", "escape")
        await until(pilot, lambda: not isinstance(app.screen, DataScreen))


def _choices(asked: dict[str, Any]) -> dict[str, Any]:
    chosen = asked["configuration"]
    return {
        "configurations": ["en", "[vi]"], "default": None, "configuration": chosen,
        "splits": ["train", "test"] if chosen else [],
    }  # fmt: skip


async def test_configuration_and_split_are_chosen_by_keys(tmp_path: Path) -> None:
    reader = DataReader(choices=_choices)
    app = make_app(tmp_path, reader)
    taken: list[DataChange | None] = []
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        app.push_screen(DataScreen(VALUES, tmp_path, "sft"), taken.append)
        await until_shown(pilot, "Row 1 of 30 read")
        await pilot.press("c")
        await until_shown(pilot, "Configuration", "[vi]")
        await pilot.press("down", "enter")
        await until_shown(pilot, "Split", "test")
        await pilot.press("down", "enter")
        await until(pilot, lambda: reader.asked[-1][0] == "data.preview" and isinstance(app.screen, DataScreen))
        (source,) = reader.asked[-1][1]["sources"]
        assert source == {"path": "trl-lib/Capybara", "name": "[vi]", "split": "test"}
        await until_shown(pilot, "Row 1 of 30 read")
        await pilot.press("escape")
        await until(pilot, lambda: taken)
    assert taken == [DataChange({"dataset_config": "[vi]", "dataset_train_split": "test"})]


async def test_a_mixture_is_put_together_and_judged_part_by_part(tmp_path: Path) -> None:
    (tmp_path / "mine.jsonl").write_text("{}")
    refused = {"error_type": "DatasetNotFoundError", "error": "not there", "status": 404, "part": 0}

    def preview(asked: dict[str, Any]) -> dict[str, Any]:
        lone = len(asked["sources"]) == 1 and asked["sources"][0]["path"] == "json"
        return refused if lone else DataReader().ask("data.preview", **asked)

    reader = DataReader(preview=preview, choices=_choices)
    app = make_app(tmp_path, reader)
    taken: list[DataChange | None] = []
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        app.push_screen(DataScreen(VALUES, tmp_path, "sft"), taken.append)
        await until_shown(pilot, "Row 1 of 30 read")
        await pilot.press("c")
        await until_shown(pilot, "Configuration")
        await pilot.press("escape", "a", *"mine.jsonl", "enter")
        await until_shown(pilot, "✔ trl-lib/Capybara · train: conversations", "✖ mine.jsonl · train: No data set")
        await pilot.press("shift+tab", "down", "c")
        assert [question for question, _ in reader.asked].count("data.choices") == 1, "a file has none"
        await pilot.press("a", *"b/c", "enter")
        await until_shown(pilot, "✔ b/c · train: conversations")
        await pilot.press("delete")
        await until(pilot, lambda: "mine.jsonl" not in shown(pilot) and "b/c · train" in shown(pilot))
        await pilot.press("escape")
        await until(pilot, lambda: taken)
    gone = ("dataset_name", "dataset_config", "dataset_train_split")
    assert taken == [DataChange({"datasets": [{"path": "trl-lib/Capybara"}, {"path": "b/c"}]}, gone)]


async def test_a_key_writes_a_copy_with_the_columns_that_the_trainer_reads(tmp_path: Path) -> None:
    other = {
        "columns": [{"name": "question", "type": "text"}, {"name": "answer", "type": "text"}],
        "rows": [{"question": "[/red]", "answer": "4"}], "no_tokens": "row 1: KeyError: 'text'",
    }  # fmt: skip
    reader = DataReader(preview=other, copy={"copy": 1}, copy_more={"rows": 7, "done": True})
    app = make_app(tmp_path, reader)
    taken: list[DataChange | None] = []
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        app.push_screen(DataScreen(VALUES, tmp_path, "sft"), taken.append)
        await until_shown(pilot, "question as prompt, answer as completion", "[/red]")
        await pilot.press("m")
        await until(pilot, lambda: [asked for asked in reader.asked if asked[0] == "data.copy.end"])
        await until(pilot, lambda: reader.asked[-1][0] == "data.preview")
        await pilot.press("escape")
        await until(pilot, lambda: taken)
    (asked,) = [arguments for question, arguments in reader.asked if question == "data.copy"]
    assert asked["files"] == ["kerneltui-data/Capybara-sft/train.jsonl"]
    assert asked["mapping"]["columns"] == {"prompt": ("question",), "completion": ("answer",)}
    gone = ("dataset_config", "dataset_train_split", "dataset_test_split")
    assert taken == [DataChange({"dataset_name": "kerneltui-data/Capybara-sft"}, gone)]
