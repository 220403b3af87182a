"""The live pane: what it says in each state, its keys, and that nothing that a run prints breaks it."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from rich.cells import cell_len
from textual.pilot import Pilot

from kerneltui.runs.directory import Request
from kerneltui.tui.theme import DARK, LIGHT
from kerneltui.tui.widgets.chart import Chart
from kerneltui.tui.widgets.log_view import LogPane
from tests.tui import fake_runs
from tests.tui.fake_runs import HOSTILE_LOG, FakeRun
from tests.tui.watching import rows, shown, until, until_shown, watch

SIZES = [(80, 24), (120, 40), (200, 60)]
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")


def recently() -> datetime:
    """Return a start that lets a fake's training end about now."""
    return datetime.now().astimezone() - timedelta(seconds=61)


@pytest.mark.parametrize("size", SIZES)
def test_a_running_run(tmp_path: Path, size: tuple[int, int]) -> None:
    fake = fake_runs.running(tmp_path, start=recently())

    async def play(pilot: Pilot[str]) -> None:
        await until_shown(
            pilot, "calm-otter", "sft · Qwen3-0.6B · flash-attn2@v4 ✔ in use", "● running", "step 412 / 3000", "14 %",
            "5 m 2", "left", "7.87 steps/s", "129k tokens/s", "checkpoint in 88 steps, 11 s",
            "─ loss ─", "eval ◆ 1.927 · 1.762 →", "grad_norm", "0.6083", "H200", "96 %", "70/143 GiB", "62 °C",
            "no throttling", "─ Log ─", "following", "'epoch': '0.589'",
        )  # fmt: skip
        assert "▲" not in shown(pilot)
        assert all(len(row) == size[0] for row in rows(pilot))

    watch(fake.run, play, size=size)


def test_a_narrow_screen_reads_out_what_it_does_not_draw(tmp_path: Path) -> None:
    fake = fake_runs.running(tmp_path, start=recently())

    async def play(pilot: Pilot[str]) -> None:
        await until_shown(pilot, "4 more", "grad_norm", "entropy")
        assert len([chart for chart in pilot.app.screen.query(Chart) if chart.display]) == 1
        assert pilot.app.screen.query_one(Chart).reading == (
            "loss: last 1.762 at step 412, steady; from 1.571 to 4.037; evaluation 1.927 at step 400"
        )

    watch(fake.run, play, size=(80, 24))


def test_a_run_that_waits_for_its_first_step_says_what_it_does(tmp_path: Path) -> None:
    fake = FakeRun(tmp_path, start=datetime.now().astimezone())
    fake.event("process_start", trainer="sft", pid=1)

    async def play(pilot: Pilot[str]) -> None:
        await until_shown(pilot, "… importing packages, loading model and data (", "no step yet", "Curves")
        fake.begin()
        await until_shown(pilot, "… taking its first step", "✔ in use")
        fake.train(4, 8)
        await until_shown(pilot, "step 8 / 3000", "─ loss ─", "─ grad_norm ─")
        await until(pilot, lambda: "taking its first step" not in shown(pilot))

    watch(fake.run, play)


@pytest.mark.parametrize("size", SIZES[:2])
def test_a_finished_run_says_where_the_model_is(tmp_path: Path, size: tuple[int, int]) -> None:
    fake = fake_runs.finished(tmp_path)

    async def play(pilot: Pilot[str]) -> None:
        await until_shown(pilot, "✔ finished", "✔ Finished", "model", "step 300 / 300", "100 %", "took 47 s")
        await until_shown(pilot, "7.85 steps/s on average", "✅ Training completed.")
        assert str(fake.run.path / "output") in re.sub(r"[\s▌]", "", shown(pilot))
        assert "Checkpoint" not in rows(pilot)[-1]

    assert watch(fake.run, play, size=size) is None


@pytest.mark.parametrize("size", SIZES[:2])
def test_a_failed_run_says_why_and_how_to_go_on(tmp_path: Path, size: tuple[int, int]) -> None:
    fake = fake_runs.failed(tmp_path)

    async def play(pilot: Pilot[str]) -> None:
        await until_shown(pilot, "✖ failed", "✖ Failed: OutOfMemoryError: CUDA out of memory", "output.log")
        await until_shown(pilot, "go on", "from the checkpoint of step 100: kerneltui resume")
        await until_shown(pilot, "✖ 2", "✖ OutOfMemoryError")

    watch(fake.run, play, size=size)


def test_a_stopped_and_a_killed_run(tmp_path: Path) -> None:
    fake = fake_runs.running(tmp_path)
    fake.state("stopped", reason="by request, with a checkpoint", code=0)

    async def stopped(pilot: Pilot[str]) -> None:
        await until_shown(pilot, "✔ Stopped: by request, with a checkpoint", "from the checkpoint of step 400:")

    watch(fake.run, stopped)
    other = FakeRun(tmp_path, "early")
    other.begin()
    other.state("killed", reason="by request (stop --now)")

    async def killed(pilot: Pilot[str]) -> None:
        await until_shown(pilot, "✖ Killed: by request (stop --now)", "no checkpoint was written")

    watch(other.run, killed)


def test_a_record_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    fake = FakeRun(tmp_path)
    (fake.run.path / "state.json").write_text("[")

    async def play(pilot: Pilot[str]) -> None:
        await until_shown(pilot, "✖ The record cannot be read", "state.json is not JSON", "✖ unreadable")

    watch(fake.run, play)


def test_alerts_and_what_was_asked_are_in_view(tmp_path: Path) -> None:
    fake = fake_runs.running(tmp_path, start=recently(), host="gpu-8")
    fake.event("recorder_failed", place="on_log", error={"type": "OSError", "message": "no space"})
    fake.run.write("request", Request(action="stop", time=fake.time.isoformat()))

    async def play(pilot: Pilot[str]) -> None:
        await until_shown(
            pilot, "▲ the record has gaps (OSError: no space)", "· it runs on gpu-8", "… a stop is asked for"
        )
        fake.run.request.unlink()
        await until(pilot, lambda: "a stop is asked for" not in shown(pilot))

    watch(fake.run, play)


@pytest.mark.parametrize(
    ("size", "theme"), [((80, 24), DARK.name), ((200, 60), LIGHT.name), ((60, 20), DARK.name), ((20, 8), DARK.name)]
)
def test_hostile_words_raise_nothing_and_no_control_character_is_drawn(
    tmp_path: Path, size: tuple[int, int], theme: str
) -> None:
    fake = fake_runs.hostile(tmp_path)

    async def play(pilot: Pilot[str]) -> None:
        if size[0] >= 80:
            await until_shown(pilot, "平静的水獭", "✖ differs", "✖ NaN", "evil/[/red]attention", "[/red]奖励🚀")
        for key in ("1", "1", "2", "2", "3", "up", "pageup", "home", "pagedown", "end", "3"):
            await pilot.press(key)
            assert not CONTROL.search("".join(rows(pilot)))
            assert {cell_len(row) for row in rows(pilot)} == {size[0]}
        await pilot.resize_terminal(100, 30)
        fake.print(HOSTILE_LOG + b"the end\n")
        await until_shown(pilot, "the end")
        assert not CONTROL.search("".join(rows(pilot)))
        assert {cell_len(row) for row in rows(pilot)} == {100}

    watch(fake.run, play, size=size, theme=theme)


def test_markup_and_wide_words_of_the_log_are_shown_as_they_are(tmp_path: Path) -> None:
    fake = FakeRun(tmp_path)
    fake.print(HOSTILE_LOG)

    async def play(pilot: Pilot[str]) -> None:
        await pilot.press("3", "home")
        await until_shown(
            pilot,
            "[/red] [b [bold]not bold[/bold] [@click=app.quit]quit[/] $primary [/]",
            "损失下降:0.123 训练正常 ✅ 🚀",
        )

    watch(fake.run, play)


def test_keys_enlarge_a_pane_and_bring_all_back(tmp_path: Path) -> None:
    fake = fake_runs.running(tmp_path, gpus=8, start=recently())

    async def play(pilot: Pilot[str]) -> None:
        await pilot.press("1")
        await until_shown(pilot, "─ learning_rate ─")
        assert "─ Log ─" not in shown(pilot)
        await pilot.press("2")
        await until_shown(pilot, "─ GPUs ─", " 7  use ▇")
        assert "─ loss ─" not in shown(pilot)
        await pilot.press("3")
        await until_shown(pilot, "─ Log ─")
        assert "─ GPUs ─" not in shown(pilot)
        await pilot.press("3")
        await until_shown(pilot, "─ Log ─", "─ GPUs ─", "─ loss ─")

    watch(fake.run, play)


def test_the_log_follows_its_end_until_one_goes_up(tmp_path: Path) -> None:
    fake = FakeRun(tmp_path)
    fake.print("".join(f"line {number}\n" for number in range(300)))

    async def play(pilot: Pilot[str]) -> None:
        await until_shown(pilot, "line 299", "following")
        await pilot.press("pageup")
        await until(pilot, lambda: "line 299" not in shown(pilot))
        top = pilot.app.screen.query_one(LogPane).top
        fake.print("one more\n")
        await until_shown(pilot, "of 301, f follows the end")
        assert pilot.app.screen.query_one(LogPane).top == top
        await pilot.press("f")
        await until_shown(pilot, "one more", "following")

    watch(fake.run, play)


def test_a_second_attempt_shows_its_own_log(tmp_path: Path) -> None:
    fake = fake_runs.failed(tmp_path)

    async def play(pilot: Pilot[str]) -> None:
        await until_shown(pilot, "✖ OutOfMemoryError")
        fake.run.attempt(2).mkdir()
        fake.print("".join(f"second {number}\n" for number in range(80)), attempt=2)
        fake.state("running", attempt=2)
        await until_shown(pilot, "second 79", "second 78", "attempt 2")
        await pilot.press("3", "home")
        await until_shown(pilot, "second 0 ")
        assert "'loss'" not in shown(pilot)

    watch(fake.run, play)


def test_a_checkpoint_is_asked_for_at_once(tmp_path: Path) -> None:
    fake = fake_runs.running(tmp_path, start=recently())

    async def play(pilot: Pilot[str]) -> None:
        await pilot.press("k")
        await until(pilot, fake.run.request.exists)
        await until_shown(pilot, "… a checkpoint is asked for")

    watch(fake.run, play)
    assert msgspec.json.decode(fake.run.request.read_bytes(), type=Request).action == "checkpoint"


@pytest.mark.parametrize(
    ("key", "words", "answer", "action"),
    [
        ("s", "Its next regular checkpoint comes in 88 steps, about 11 s.", "enter", "stop"),
        ("s", "saves a checkpoint and the", "n", None),
        ("s", "saves a checkpoint and the", "escape", None),
        ("K", "what came after it (12 steps) is", "y", "kill"),
        ("K", "without a checkpoint", "enter", None),
    ],
)
def test_stopping_asks_first(tmp_path: Path, key: str, words: str, answer: str, action: str | None) -> None:
    fake = fake_runs.running(tmp_path, start=recently())

    async def play(pilot: Pilot[str]) -> None:
        await pilot.press(key)
        await until_shown(pilot, words)
        await pilot.press(answer)
        await until(pilot, lambda: len(pilot.app.screen_stack) == 2)
        if action:
            await until(pilot, fake.run.request.exists)

    watch(fake.run, play)
    asked = msgspec.json.decode(fake.run.request.read_bytes(), type=Request).action if action else None
    assert asked == action
    assert fake.run.request.exists() == bool(action)


def test_a_run_that_has_ended_cannot_be_asked(tmp_path: Path) -> None:
    fake = fake_runs.finished(tmp_path)

    async def play(pilot: Pilot[str]) -> None:
        await pilot.press("k", "s", "K")
        assert len(pilot.app.screen_stack) == 2

    watch(fake.run, play)
    assert not fake.run.request.exists()


def test_what_cannot_be_asked_says_why(tmp_path: Path) -> None:
    fake = fake_runs.running(tmp_path, start=recently(), host="gpu-8")

    async def play(pilot: Pilot[str]) -> None:
        await pilot.press("K")
        await until_shown(pilot, "End calm-otter at once?")
        await pilot.press("y")
        await until_shown(pilot, "calm-otter runs on gpu-8")

    watch(fake.run, play)


@pytest.mark.parametrize("key", ["l", "escape", "q"])
def test_leaving_leaves_the_run_alone_and_says_how_to_find_it(tmp_path: Path, key: str) -> None:
    fake = fake_runs.running(tmp_path, start=recently())
    before = {path: path.read_bytes() for path in fake.run.path.rglob("*") if path.is_file()}

    async def play(pilot: Pilot[str]) -> None:
        await pilot.press(key)

    assert watch(fake.run, play) == f"kerneltui watch {fake.run.path}"
    assert {path: path.read_bytes() for path in fake.run.path.rglob("*") if path.is_file()} == before


def test_a_run_that_ends_while_it_is_watched(tmp_path: Path) -> None:
    fake = fake_runs.running(tmp_path, start=recently())

    async def play(pilot: Pilot[str]) -> None:
        await until_shown(pilot, "● running", "k Checkpoint")
        fake.state("finished", code=0)
        await until_shown(pilot, "✔ Finished", "✔ finished")
        await until(pilot, lambda: "Checkpoint" not in rows(pilot)[-1])

    watch(fake.run, play)


def test_nothing_is_drawn_when_nothing_changed(tmp_path: Path) -> None:
    fake = fake_runs.finished(tmp_path)

    async def play(pilot: Pilot[str]) -> None:
        await until_shown(pilot, "✔ Finished", "─ entropy ─")
        screen = pilot.app.screen
        await until(pilot, lambda: not screen._dirty_widgets)
        drawn: list[object] = []
        chart, log = screen.query(Chart).first(), screen.query_one(LogPane)
        for widget in (chart, log):
            widget.render_line = lambda y, of=widget: drawn.append(of)  # type: ignore[assignment,method-assign,misc]
        seen = screen.view  # type: ignore[attr-defined]
        await until(pilot, lambda: screen.view.now > seen.now + timedelta(seconds=0.3))  # type: ignore[attr-defined]
        assert drawn == []
        del chart.render_line, log.render_line

    watch(fake.run, play)


def test_the_screen_is_there_without_a_training_package() -> None:
    heavy = {"torch", "transformers", "trl", "datasets", "pandas", "accelerate", "kernels", "huggingface_hub"}
    program = "import sys, kerneltui.tui.screens.run, kerneltui.runs.live, kerneltui.runs.log; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) & heavy == set()
