"""Finding runs, here and in the other places that hold some."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kerneltui.errors import UsageError
from kerneltui.runs.find import Elsewhere, find_run, list_runs, runs_elsewhere
from kerneltui.runs.places import remember
from kerneltui.show import elsewhere_lines, run_lines
from tests.bad_input.command import real
from tests.runs.fakes import make_record, make_run, set_state


def test_no_runs_says_what_to_do(tmp_path: Path) -> None:
    assert list_runs(tmp_path / "none") == []
    assert run_lines([], tmp_path) == [
        f"No runs in {tmp_path}. `kerneltui demo` makes one; `kerneltui launch` starts your own."
    ]


def test_an_unknown_run_gets_the_nearest_name(tmp_path: Path) -> None:
    (tmp_path / "calm-otter").mkdir()
    (tmp_path / "calm-otter" / "run.json").write_text("{}")
    assert find_run(tmp_path, "calm-otter").name == "calm-otter"
    assert find_run(tmp_path / "elsewhere", str(tmp_path / "calm-otter")).name == "calm-otter"
    with pytest.raises(UsageError) as raised:
        find_run(tmp_path, "calm-oter")
    assert (
        str(raised.value) == f"No run 'calm-oter' in {tmp_path}\n`kerneltui runs` lists them.\nDid you mean calm-otter?"
    )
    with pytest.raises(UsageError):
        find_run(tmp_path, "../calm-otter")


def test_runs_are_found_newest_first(tmp_path: Path) -> None:
    for number, name in enumerate("abc"):
        make_record(make_run(tmp_path / name, ""))
        os.utime(tmp_path / name / "run.json", (1000 - number, 1000 - number))
    (tmp_path / "c" / "notes.toml").write_text("")
    assert [run.name for run in list_runs(tmp_path)] == ["a", "b", "c"]


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the known places one and two, which hold the runs calm-otter; two also brave-fox."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for place, name in (("one", "calm-otter"), ("two", "calm-otter"), ("two", "brave-fox")):
        make_record(make_run(tmp_path / place / name, "", phase="finished"))
        remember(tmp_path / place)
    return tmp_path


def test_a_run_is_found_in_any_known_place(places: Path) -> None:
    here = places / "here"
    with pytest.raises(UsageError):
        find_run(here, "brave-fox")
    assert find_run(here, "brave-fox", elsewhere=True).path == places / "two" / "brave-fox"
    assert find_run(places / "one", "calm-otter", elsewhere=True).path == places / "one" / "calm-otter"
    with pytest.raises(UsageError) as raised:
        find_run(here, "brave-fix", elsewhere=True)
    assert str(raised.value) == (
        f"No run 'brave-fix' in {here} or in any other known place\n`kerneltui runs` lists them.\n"
        "Did you mean brave-fox?"
    )


def test_several_runs_of_one_name_are_told_apart_by_their_paths(places: Path) -> None:
    with pytest.raises(UsageError) as raised:
        find_run(places / "here", "calm-otter", elsewhere=True)
    assert str(raised.value) == (
        f"Several runs are called 'calm-otter'\n{places}/two/calm-otter\n{places}/one/calm-otter\n"
        "Give the path of the one that is meant."
    )


def test_one_place_under_two_names_is_one(places: Path) -> None:
    (places / "alias").symlink_to(places / "two")
    remember(places / "alias")
    assert find_run(places / "here", "brave-fox", elsewhere=True).name == "brave-fox"
    assert find_run(places / "two", "brave-fox", elsewhere=True).path == places / "two" / "brave-fox"


def test_what_lies_elsewhere_is_told_with_what_is_live_there(places: Path) -> None:
    set_state(make_run(places / "two" / "quick-fox", ""), phase="running", hostname="gpu-7")
    make_record(make_run(places / "two" / "lost", "", phase="running", boot_id="another"))
    make_record(make_run(places / "two" / "live", "", phase="running"))
    (places / "empty").mkdir()
    remember(places / "empty")
    found = runs_elsewhere(places / "one")
    assert found == [Elsewhere(directory=str(places / "two"), runs=4, live=1)]
    assert elsewhere_lines(found) == [
        "", "Elsewhere, found by name from here too:", f"  4 runs (1 live) in {places}/two",
    ]  # fmt: skip
    assert elsewhere_lines([Elsewhere(directory="/x\x1b[2J", runs=1, live=0)])[-1] == "  1 run in /x"
    assert elsewhere_lines([]) == []


def test_the_commands_find_a_run_that_was_started_elsewhere(places: Path, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    said = real("watch", "brave-fox", "--plain", cwd=tmp_path / "home")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("✔ brave-fox finished")
    listed = real("runs", cwd=tmp_path / "home")
    assert f"  2 runs in {places}/two\n" in listed.out
    ambiguous = real("stop", "calm-otter", cwd=tmp_path / "home")
    assert (ambiguous.code, ambiguous.out) == (2, "")
    assert f"  {places}/one/calm-otter\n" in ambiguous.err
    named = real("stop", "brave-fox", "--runs-dir", str(places / "one"), cwd=tmp_path / "home")
    assert (named.code, named.err.splitlines()[0]) == (2, f"✖ No run 'brave-fox' in {places}/one")
