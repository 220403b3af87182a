"""Searching the log pane: both ways through a file of any size, errors stepped through, and what is hostile is text."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from kerneltui.tui.widgets.log_view import LogPane
from tests.tui.fake_runs import HOSTILE_LOG, FakeRun
from tests.tui.test_run_screen import CONTROL
from tests.tui.watching import rows, shown, until, until_shown, watch


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the pane says in passing, which an app under test does not draw."""
    messages: list[str] = []
    monkeypatch.setattr(LogPane, "notify", lambda _, message, **options: messages.append(message))
    return messages


async def look_for(pilot: Pilot[str], expression: str) -> None:
    await pilot.press("slash")
    await until(pilot, lambda: pilot.app.screen.query(Input))
    pilot.app.screen.query_one(Input).value = expression
    await pilot.press("enter")


async def until_marked(pilot: Pilot[str], start: str) -> None:
    await until(pilot, lambda: marked(pilot).startswith(start))


def marked(pilot: Pilot[str]) -> str:
    """Return the row that is marked as found, without the sign before it."""
    return next((row.partition("›")[2].strip(" │") for row in rows(pilot) if "›" in row), "")


def test_it_is_searched_both_ways_beyond_what_is_kept(tmp_path: Path) -> None:
    fake = FakeRun(tmp_path)
    fake.print("".join(f"line {number:06d}\n" for number in range(60_000)))

    async def play(pilot: Pilot[str]) -> None:
        await until_shown(pilot, "line 059999", "/ Search")
        await look_for(pilot, "line 0.0007$")
        for key, number in (("", 50007), ("N", 40007), ("N", 30007), ("n", 40007), ("N", 30007), ("N", 20007)):
            await pilot.press(*key.split())
            await until_marked(pilot, f"line {number:06d}")
        await until_shown(pilot, "at 33 % of 0.7 MB", f"line {number - 1:06d}", f"line {number + 1:06d}")
        fake.print("one more\n")
        await pilot.press("f")
        await until_shown(pilot, "one more", "following")

    watch(fake.run, play, size=(80, 24))


def test_one_goes_on_beyond_the_edges_of_what_was_found(tmp_path: Path) -> None:
    fake = FakeRun(tmp_path)
    fake.print("".join(f"line {number:06d}\n" for number in range(60_000)))

    async def play(pilot: Pilot[str]) -> None:
        log = pilot.app.screen.query_one(LogPane)
        await look_for(pilot, "line 030000")
        await until(pilot, lambda: marked(pilot) == "line 030000")
        log.action_go(-10_000)
        await until_shown(pilot, "line 029500")
        await pilot.press("up", "up")
        await until(pilot, lambda: log._excerpt and log._excerpt.lines[0] < "line 029100")
        await until_shown(pilot, "line 029500")
        await pilot.press("home")
        await until_shown(pilot, "line 000000")
        await pilot.press("end")
        await until_shown(pilot, "line 059999", "following")

    watch(fake.run, play)


def test_errors_and_warnings_are_stepped_through(tmp_path: Path, told: list[str]) -> None:
    fake = FakeRun(tmp_path)
    fake.print("ValueError: first\n" + "calm\n" * 20_000 + "UserWarning: second\n" + "calm\n" * 20_000)

    async def play(pilot: Pilot[str]) -> None:
        await until_shown(pilot, "calm")
        await pilot.press("e")
        await until(pilot, lambda: marked(pilot) == "UserWarning: second")
        assert "▲›UserWarning" in shown(pilot)
        await pilot.press("E")
        await until(pilot, lambda: marked(pilot) == "ValueError: first")
        assert "✖›ValueError" in shown(pilot)
        await pilot.press("E")
        await until(pilot, lambda: told == ["No line above is an error or a warning."])
        assert marked(pilot) == "ValueError: first"

    watch(fake.run, play)


def test_what_is_no_expression_says_so_and_can_be_mended(tmp_path: Path, told: list[str]) -> None:
    fake = FakeRun(tmp_path)
    fake.print("what (1)\n[/red] $primary\n")

    async def play(pilot: Pilot[str]) -> None:
        await until_shown(pilot, "what (1)")
        await look_for(pilot, "(1")
        await until_shown(pilot, "This is no regular expression: missing )")
        pilot.app.screen.query_one(Input).value = r"\(1"
        await pilot.press("enter")
        await until(pilot, lambda: marked(pilot) == "what (1)")
        await look_for(pilot, "nowhere[/b]")
        await until(pilot, lambda: told == ["No line below matches nowhere[/b]."])
        await pilot.press("slash", "escape")
        assert marked(pilot) == "what (1)"

    watch(fake.run, play)


def test_before_anything_is_printed_there_is_nothing_to_find(tmp_path: Path, told: list[str]) -> None:
    fake = FakeRun(tmp_path)

    async def play(pilot: Pilot[str]) -> None:
        await pilot.press("n")
        await until(pilot, lambda: pilot.app.screen.query(Input))
        await pilot.press("x", "enter")
        await until(pilot, lambda: told == ["Nothing was printed yet."])

    watch(fake.run, play)


def test_hostile_lines_that_are_found_are_plain_text(tmp_path: Path) -> None:
    fake = FakeRun(tmp_path)
    fake.print(HOSTILE_LOG + b"calm\n" * 300)

    async def play(pilot: Pilot[str]) -> None:
        await until_shown(pilot, "calm")
        for text, found in (("mouse", "red  mouse  c1  next"), ("@click", "[/red] [b [bold]not bold[/bold]")):
            await pilot.press("f")
            await look_for(pilot, text)
            await until_marked(pilot, found)
            assert not CONTROL.search("".join(rows(pilot)))

    watch(fake.run, play)
