"""The history: filtered and sorted, tagged, compared, removed; read once, however many runs there are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kerneltui.advice.assessment import Attention
from kerneltui.errors import KerneltuiError, UsageError
from kerneltui.plan.plan import Plan
from kerneltui.runs import view as view_module
from kerneltui.runs.compare import compare
from kerneltui.runs.delete import delete, plan_deletion
from kerneltui.runs.directory import RunDirectory, RunRecord
from kerneltui.runs.hours import gpu_hours
from kerneltui.runs.notes import change_notes, read_notes
from kerneltui.runs.processes import MARK, processes_of
from kerneltui.runs.select import SORTS, filter_views, sort_views
from kerneltui.runs.view import view_run, view_runs
from kerneltui.runs.view_record import RunView
from kerneltui.show_runs import comparison_lines
from tests.runs.fakes import KERNEL, ago, make_record, make_run, set_state
from tests.waiting import until

VIEWS = (
    RunView(name="one", path="/r/one", phase="finished", trainer="sft", model="Qwen/Qwen3-0.6B", loss=1.5, speed=4.0,
            tags=("base",), started="2026-12-01T10:00:00+00:00"),
    RunView(name="two", path="/r/two", phase="failed", trainer="dpo", model="meta-llama/Llama", loss=0.6, gpu_hours=9.0,
            started="2026-12-01T12:00:00+00:00", remark="With another prompt"),
    RunView(name="three", path="/r/three", problem="cannot be read"),
)  # fmt: skip


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def _ended(folder: Path, name: str = "run", **changes: Any) -> RunDirectory:
    run = make_run(folder / name, "", phase="finished", started=ago(900), ended=ago(300))
    make_record(run, **changes)
    return run


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("", ["one", "two", "three"]), ("qwen", ["one"]), ("SFT finished", ["one"]), ("#base", ["one"]),
        ("#bas", []), ("prompt", ["two"]), ("o", ["one", "two"]), ("sft dpo", []),
    ],
)  # fmt: skip
def test_words_narrow_the_list(words: str, names: list[str]) -> None:
    assert [view.name for view in filter_views(VIEWS, words)] == names


@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("age", ["two", "one", "three"]), ("name", ["one", "three", "two"]), ("loss", ["two", "one", "three"]),
        ("speed", ["one", "two", "three"]), ("hours", ["two", "one", "three"]), ("state", ["two", "one", "three"]),
        ("trainer", ["two", "one", "three"]), ("model", ["one", "two", "three"]),
    ],
)  # fmt: skip
def test_runs_without_the_value_come_last(by: str, names: list[str]) -> None:
    assert by in SORTS
    assert [view.name for view in sort_views(VIEWS, by)] == names


def test_tags_and_a_remark_are_kept_with_the_run_and_shown(tmp_path: Path) -> None:
    run = _ended(tmp_path)
    assert view_run(run).tags == ()
    change_notes(run, add=["base", "keep", "base"], remark='It said "fine" \\ ✔')
    change_notes(run, add=["v2"], remove=["keep"])
    assert read_notes(run).tags == ("base", "v2")
    view = view_run(run)
    assert (view.tags, view.remark) == (("base", "v2"), 'It said "fine" \\ ✔')
    with pytest.raises(UsageError, match="is no tag"):
        change_notes(run, add=["a b"])
    for broken in ("tags = [", "tags = 7", "\xff", 'tags = [1, "\\u001b[2J"]'):
        (run.path / "notes.toml").write_bytes(broken.encode("latin-1"))
        assert read_notes(run).tags == ()


def test_a_run_that_has_ended_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [_ended(tmp_path / "runs", f"run-{number}") for number in range(5)]
    first = view_runs(tmp_path / "runs")
    read: list[Path] = []
    real = RunDirectory.read_run

    def remembering(run: RunDirectory) -> RunRecord:
        read.append(run.path)
        return real(run)

    monkeypatch.setattr(RunDirectory, "read_run", remembering)
    assert view_runs(tmp_path / "runs") == first
    assert read == []
    set_state(runs[2], phase="failed", reason="E: m")
    changed = view_runs(tmp_path / "runs")
    assert read == [runs[2].path]
    assert [view.reason for view in changed if view.name == "run-2"] == ["E: m"]
    # Another process finds them in the cache.
    kept = json.loads((tmp_path / "cache/kerneltui/runs.json").read_bytes())
    assert len(kept["views"]) == 5


def test_the_newest_are_given_before_all_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        _ended(tmp_path / "runs", f"run-{number}")
    given: list[list[RunView]] = []
    monkeypatch.setattr(view_module, "_FIRST", 2)
    assert len(view_runs(tmp_path / "runs", on_first=given.append)) == 5
    assert [len(views) for views in given] == [2]


def test_what_differs_is_shown_and_what_came_of_it(tmp_path: Path) -> None:
    attention = Attention(asked=KERNEL, implementation=KERNEL, repository=KERNEL, commit="a" * 40)
    plan = Plan(trainer="sft", cwd="/w", config="max_steps: 9\nhub_token: hf_abcdefghij\nlr: 1", flags=("--packing",))
    one = _ended(tmp_path, "one", plan=plan)
    other = msgspec.structs.replace(plan, config="max_steps: 9\nhub_token: other\nlr: 2", flags=("--seed", "7"))
    two = _ended(tmp_path, "two", plan=other)
    record = two.read_run()
    will_run = msgspec.structs.replace(record.will_run, attention=attention, packages={"trl": "1.16.0"})
    two.write("run.json", msgspec.structs.replace(record, will_run=will_run))
    for run, loss in ((one, 2.0), (two, 1.5)):
        run.metrics.write_text(
            json.dumps({"attempt": 1, "kind": "log", "step": 9, "values": {"loss": loss, "num_tokens": 12345}}) + "\n"
        )
    two.events.write_text(json.dumps({"attempt": 1, "event": "train_end", "memory_peak": 3 << 30}) + "\n")
    found = compare([one, two])
    assert {row.subject: row.values for row in found.asked} == {
        "lr": ("1", "2"), "packing": ("true", None), "seed": (None, "7")
    }  # fmt: skip
    assert {row.subject: row.values for row in found.ran} == {
        "attention": ("sdpa", KERNEL), "kernel commit": (None, "a" * 40), "trl": (None, "1.16.0")
    }  # fmt: skip
    results = {row.subject: row.values for row in found.results}
    assert (results["loss"], results["tokens"]) == (("2", "1.5"), ("12 345", "12 345"))
    assert results["peak memory"] == (None, "3.0 GiB")
    lines = comparison_lines(found)
    assert "hf_abcdefghij" not in "\n".join(lines)
    assert lines[-1] == f"{found.same} more are the same."


def test_a_run_is_removed_with_its_size_told_and_nothing_else(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "model").write_text("kept")
    run = _ended(tmp_path, output_dir=str(outside))
    (run.path / "link").symlink_to(outside)
    (run.path / "big").write_bytes(bytes(100_000))
    found = plan_deletion(run)
    assert found.size > 100_000
    assert found.kept == str(outside)
    delete(found)
    assert not run.path.exists()
    assert (outside / "model").read_text() == "kept"


def test_a_run_that_lives_is_not_removed(tmp_path: Path) -> None:
    active = make_run(tmp_path / "active", "")
    with pytest.raises(KerneltuiError) as raised:
        plan_deletion(active)
    assert raised.value.message == "It has not ended."
    run = _ended(tmp_path)
    found = plan_deletion(run)
    left = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"], env={**os.environ, MARK: str(run.path)}
    )
    until(lambda: processes_of(run.path))
    with pytest.raises(KerneltuiError, match="Processes of it still live"):
        delete(found)
    left.kill()
    left.wait()
    assert run.path.exists()


def test_a_run_without_a_readable_record_can_be_removed(tmp_path: Path) -> None:
    run = _ended(tmp_path)
    (run.path / "state.json").write_text("{")
    (run.path / "run.json").write_text("{")
    delete(plan_deletion(run))
    assert not run.path.exists()


NOW = datetime.fromisoformat("2026-12-01T14:00:00+00:00")


def _event(hours: float, name: str, attempt: int = 1, **values: Any) -> dict[str, Any]:
    return {"time": (NOW - timedelta(hours=hours)).isoformat(), "attempt": attempt, "event": name, **values}


@pytest.mark.parametrize(
    ("events", "hours"),
    [
        ([], None),
        ([_event(3, "run_begin"), _event(2.9, "train_begin", device="cpu", world_size=1), _event(1, "run_end")], None),
        ([_event(3, "run_begin"), _event(2.9, "train_begin", device="cuda:0", world_size=2), _event(1, "run_end")], 4),
        ([_event(3, "run_begin"), _event(2.9, "train_begin", device="cuda:0", world_size=8)], 12),
        ([_event(9, "run_begin"), _event(9, "train_begin", device="cuda:0", world_size=1), _event(8, "run_end"),
          _event(2, "run_begin", 2), _event(1, "run_end", 2)], 2),
    ],
)  # fmt: skip
def test_gpu_hours_count_all_attempts(events: list[dict[str, Any]], hours: float | None) -> None:
    assert gpu_hours(events, 4, now=NOW) == (None if hours is None else pytest.approx(hours))


def _kerneltui(*arguments: str, answer: str = "") -> Callable[[], subprocess.CompletedProcess[str]]:
    command = [sys.executable, "-P", "-m", "kerneltui", *arguments]
    return lambda: subprocess.run(command, input=answer, capture_output=True, text=True, timeout=120)


def test_the_verbs_ask_before_they_remove_and_refuse_what_they_cannot_do(tmp_path: Path) -> None:
    run = _ended(tmp_path)
    place = ("--runs-dir", str(tmp_path))
    refused = _kerneltui("delete", "run", *place, answer="n\n")()
    assert (refused.returncode, run.path.exists()) == (0, True)
    assert "Remove run (" in refused.stderr
    tagged = _kerneltui("tag", "run", "base", *place)()
    assert tagged.stdout == "run: #base\n"
    assert "run #base" in _kerneltui("runs", "#base", *place)().stdout
    removed = _kerneltui("delete", "run", "--yes", *place)()
    assert (removed.returncode, run.path.exists()) == (0, False)
    assert _kerneltui("compare", "run", *place)().returncode == 2
